"""Sends a load as `load.py` does, at a fraction of the client's work: answers are counted, not parsed."""

import asyncio
import re
import time
from statistics import median

import aiohttp
from load import Load, Measured

TOKEN = b'"choices":[{'  # a chunk with text; the last one, with the usage, has no choices
USAGE = re.compile(rb'"prompt_tokens":\s*(\d+).*?"completion_tokens":\s*(\d+)')
TAIL_BYTES = 2000  # hold the last chunk


def run_load(url: str, load: Load) -> Measured:
    """Send the load to `url` and wait for all of it."""
    return asyncio.run(_run(url, load))


async def _run(url: str, load: Load) -> Measured:
    numbers = iter(range(load.num_requests))
    timings: list[tuple[float, float, int]] = []
    connections = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=120)
    async with aiohttp.ClientSession(url, connector=connections, timeout=timeout) as client:

        async def send_in_turn() -> None:
            for number in numbers:
                timings.append(await _request(client, load, load.models[number % len(load.models)]))

        begin = time.perf_counter()
        await asyncio.gather(*(send_in_turn() for _ in range(load.concurrency)))
        took_s = time.perf_counter() - begin
    return Measured(
        ttft_ms=1000 * median(first for first, _, _ in timings),
        tpot_ms=1000 * median(gap for _, gap, _ in timings),
        tokens_per_s=load.num_requests * load.output_tokens / took_s,
        prompt_tokens=timings[0][2],
    )


async def _request(client: aiohttp.ClientSession, load: Load, model: str) -> tuple[float, float, int]:
    """(time to first token, time per later token, prompt tokens) of one streamed completion."""
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
    first = last = 0.0
    tail = b""
    async with client.post("/v1/completions", json=body) as answer:
        if answer.status != 200:
            raise RuntimeError(f"{model}: {answer.status} {(await answer.text())[:300]}")
        async for data in answer.content.iter_any():
            if TOKEN in data:
                last = time.perf_counter()
                first = first or last
            tail = (tail + data)[-TAIL_BYTES:]
    usage = USAGE.search(tail)
    if usage is None or int(usage[2]) != load.output_tokens:
        raise RuntimeError(f"{model} wrote other than {load.output_tokens} tokens: {tail[-300:]!r}")
    return first - begin, (last - first) / max(1, load.output_tokens - 1), int(usage[1])
