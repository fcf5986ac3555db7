"""Sends a load as `load.py` does, at a fraction of the client's work: answers are counted, not parsed.

Clients start together, or spread: then each one's first request, which isn't measured, is longer than that of
the client before it. Requests of equal length that start together stay together, and their prompts are
computed in two or three large steps; half of them wait there for the others, and a median can fall on
either half. Spread, prompts arrive one by one, and every request sees the same.
"""

import asyncio
import re
import time
from dataclasses import replace

import aiohttp
from load import Load, Measured, Timing, summarise

TOKEN = b'"choices":[{'  # a chunk with text; the last one, with the usage, has no choices
USAGE = re.compile(rb'"prompt_tokens":\s*(\d+).*?"completion_tokens":\s*(\d+)')
TAIL_BYTES = 2000  # hold the last chunk


def run_load(url: str, load: Load, spread: bool = False) -> Measured:
    """Send the load to `url` and wait for all of it."""
    return asyncio.run(_run(url, load, spread))


async def _run(url: str, load: Load, spread: bool) -> Measured:
    models = (load.models[number % len(load.models)] for number in range(load.num_requests))
    timings: list[Timing] = []
    connections = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=120)
    async with aiohttp.ClientSession(url, connector=connections, timeout=timeout) as client:

        async def send_in_turn(number: int) -> None:
            own = load.models[number % len(load.models)]
            if spread:
                share = load.output_tokens * (number + 1) // load.concurrency
                await _request(client, replace(load, output_tokens=max(1, share)), own)
            for model in models:
                timings.append(await _request(client, load, model))
            while spread and len(timings) < load.num_requests:  # the last ones are not to be alone
                await _request(client, load, own)

        begin = time.perf_counter()
        await asyncio.gather(*map(send_in_turn, range(load.concurrency)))
        took_s = time.perf_counter() - begin
    return summarise(load, timings, took_s)


async def _request(client: aiohttp.ClientSession, load: Load, model: str) -> Timing:
    """One streamed completion."""
    body = {
        "model": model,
        "prompt": load.prompt,
        "max_tokens": load.output_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    begin = time.perf_counter()
    arrivals = []
    tail = b""
    async with client.post("/v1/completions", json=body) as answer:
        if answer.status != 200:
            raise RuntimeError(f"{model}: {answer.status} {(await answer.text())[:300]}")
        async for data in answer.content.iter_any():
            arrivals += [time.perf_counter()] * data.count(TOKEN)
            tail = (tail + data)[-TAIL_BYTES:]
    usage = USAGE.search(tail)
    if usage is None or int(usage[2]) != load.output_tokens:
        raise RuntimeError(f"{model} wrote other than {load.output_tokens} tokens: {tail[-300:]!r}")
    return Timing(begin, arrivals, int(usage[1]), load.output_tokens)
