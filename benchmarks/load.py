"""A closed loop of streamed completions against one server, and what they took."""

import asyncio
import json
import time
from dataclasses import dataclass
from itertools import pairwise
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
    itl_ms: float  # gap between two chunks, over all requests: a step without others' prompts in it
    tokens_per_s: float
    prompt_tokens: int


@dataclass(frozen=True)
class Timing:
    """One request's."""

    begin: float
    arrivals: list[float]  # of each chunk with text: one token, or several when the server is behind
    prompt_tokens: int
    output_tokens: int

    @property
    def ttft_s(self) -> float:
        return self.arrivals[0] - self.begin

    @property
    def tpot_s(self) -> float:
        return (self.arrivals[-1] - self.arrivals[0]) / max(1, self.output_tokens - 1)

    @property
    def gaps_s(self) -> list[float]:
        return [later - earlier for earlier, later in pairwise(self.arrivals)]


def summarise(load: Load, timings: list[Timing], took_s: float) -> Measured:
    return Measured(
        ttft_ms=1000 * median(timing.ttft_s for timing in timings),
        tpot_ms=1000 * median(timing.tpot_s for timing in timings),
        itl_ms=1000 * median(gap for timing in timings for gap in timing.gaps_s or [0.0]),
        tokens_per_s=load.num_requests * load.output_tokens / took_s,
        prompt_tokens=timings[0].prompt_tokens,
    )


def run_load(url: str, load: Load) -> Measured:
    """Send the load to `url` and wait for all of it."""
    return asyncio.run(_run(url, load))


async def _run(url: str, load: Load) -> Measured:
    numbers = iter(range(load.num_requests))
    timings: list[Timing] = []
    async with httpx.AsyncClient(base_url=url, timeout=600) as client:

        async def send_in_turn() -> None:
            for number in numbers:
                timings.append(await _request(client, load, load.models[number % len(load.models)]))

        begin = time.perf_counter()
        await asyncio.gather(*(send_in_turn() for _ in range(load.concurrency)))
        took_s = time.perf_counter() - begin
    return summarise(load, timings, took_s)


async def _request(client: httpx.AsyncClient, load: Load, model: str) -> Timing:
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
    usage = {}
    async with client.stream("POST", "/v1/completions", json=body) as answer:
        answer.raise_for_status()
        async for line in answer.aiter_lines():
            if not line.startswith("data: {"):
                continue
            chunk = json.loads(line.removeprefix("data: "))
            if chunk.get("choices"):
                arrivals.append(time.perf_counter())
            usage = chunk.get("usage") or usage
    if usage["completion_tokens"] != load.output_tokens:
        raise RuntimeError(
            f"{model} wrote {usage['completion_tokens']} tokens instead of {load.output_tokens}"
        )
    return Timing(begin, arrivals, usage["prompt_tokens"], load.output_tokens)
