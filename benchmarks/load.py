"""A closed loop of streamed completions against one server, and what they took."""

import asyncio
import json
import time
from dataclasses import dataclass
from statistics import median

import httpx


@dataclass(frozen=True)
class Load:
    """`concurrency` clients, each sending its share of `num_requests` one after the other."""

    models: tuple[str, ...]  # taken in turn
    concurrency: int
    num_requests: int
    prompt: str
    output_tokens: int


@dataclass(frozen=True)
class Measured:
    """Medians over the requests, and the whole load's rate."""

    ttft_ms: float  # request sent → first token received
    tpot_ms: float  # mean gap between a request's tokens after the first
    tokens_per_s: float
    prompt_tokens: int


def run_load(url: str, load: Load) -> Measured:
    """Send the load to `url` and wait for all of it."""
    return asyncio.run(_run(url, load))


async def _run(url: str, load: Load) -> Measured:
    numbers = iter(range(load.num_requests))
    timings: list[tuple[float, float, int]] = []
    async with httpx.AsyncClient(base_url=url, timeout=600) as client:

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


async def _request(client: httpx.AsyncClient, load: Load, model: str) -> tuple[float, float, int]:
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
    usage = {}
    async with client.stream("POST", "/v1/completions", json=body) as answer:
        answer.raise_for_status()
        async for line in answer.aiter_lines():
            if not line.startswith("data: {"):
                continue
            chunk = json.loads(line.removeprefix("data: "))
            if chunk.get("choices"):
                last = time.perf_counter()
                first = first or last
            usage = chunk.get("usage") or usage
    if usage["completion_tokens"] != load.output_tokens:
        raise RuntimeError(
            f"{model} wrote {usage['completion_tokens']} tokens instead of {load.output_tokens}"
        )
    return first - begin, (last - first) / max(1, load.output_tokens - 1), usage["prompt_tokens"]
