"""Measures each request by standing between vLLM's OpenAI layer and its engine client."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, aclosing, nullcontext
from time import perf_counter
from typing import Any

from lorikeet.serve.metrics import Metrics

Lease = Callable[[Any], AbstractContextManager[Any]]


class MeasuredEngine:
    """vLLM's `EngineClient` with every `generate` call measured; all else is the client's own.

    Args:
        engine: vLLM's client (`AsyncLLM`).
        metrics: where to count.
        base_name: what requests without an adapter are counted under.
        lease: the engine's own LoRA request for the one that vLLM's API layer names, kept loaded meanwhile.
    """

    def __init__(self, engine: Any, metrics: Metrics, base_name: str, lease: Lease = nullcontext) -> None:
        self._engine = engine
        self._lease = lease
        self._metrics = metrics
        self._base_name = base_name
        metrics.expect(base_name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def check_admission(self, n: int = 1, request_id: str | None = None) -> None:
        """Ask vLLM whether `n` more sequences fit its queue limits; a refusal is counted and passed on."""
        try:
            self._engine.check_admission(n, request_id)
        except Exception:
            self._metrics.requests_rejected.labels("queue_full").inc()
            raise

    async def generate(
        self, prompt: Any, sampling_params: Any, request_id: str, **options: Any
    ) -> AsyncIterator[Any]:
        """The client's `generate`; cancelled or left early, the inner one is closed too."""
        lora_request = options.get("lora_request")
        measure = Measure(self._metrics, lora_request.lora_name if lora_request else self._base_name)
        try:
            with self._lease(lora_request) as options["lora_request"]:
                async with aclosing(
                    self._engine.generate(prompt, sampling_params, request_id, **options)
                ) as outputs:
                    async for output in outputs:
                        measure.take(output)
                        yield output
        except (asyncio.CancelledError, GeneratorExit):
            measure.outcome = measure.outcome or "cancelled"
            raise
        finally:
            measure.finish()

    async def encode(self, *arguments: Any, **options: Any) -> AsyncIterator[Any]:
        """The client's `encode`, of pooling models."""
        with self._lease(options.get("lora_request")) as options["lora_request"]:
            async with aclosing(self._engine.encode(*arguments, **options)) as outputs:
                async for output in outputs:
                    yield output


class Measure:
    """One request from its acceptance to its end.

    Outcomes: `ok` (a stop), `length` (a token limit), `cancelled` (the client left), `error` (all else).
    """

    def __init__(self, metrics: Metrics, adapter: str) -> None:
        self.outcome = ""
        self._metrics = metrics
        self._adapter = adapter
        self._start = perf_counter()
        self._last: dict[int, float] = {}  # completion's index → when its previous tokens came
        self._finish_reasons: set[str] = set()
        self._num_prompt = 0
        self._num_completion = 0
        self._between = metrics.time_between_tokens.labels(adapter)
        metrics.requests_in_flight.labels(adapter).inc()

    def take(self, output: Any) -> None:
        """Count one `RequestOutput`: the new tokens of a stream, or all of them when nothing streams."""
        now = perf_counter()
        if not self._last:
            self._num_prompt = len(output.prompt_token_ids or ())
            self._observe_first_token(output, now)
        for completion in output.outputs:
            self._take_tokens(completion.index, len(completion.token_ids), now)
            if completion.finish_reason:
                self._finish_reasons.add(completion.finish_reason)
        if output.finished:
            self.outcome = next((name for name in ("error", "length") if name in self._finish_reasons), "ok")

    def finish(self) -> None:
        """Count the end, whatever it was."""
        metrics, adapter = self._metrics, self._adapter
        metrics.requests_in_flight.labels(adapter).dec()
        metrics.requests.labels(adapter, self.outcome or "error").inc()
        metrics.request_seconds.labels(adapter).observe(perf_counter() - self._start)
        metrics.tokens.labels(adapter, "prompt").inc(self._num_prompt)
        metrics.tokens.labels(adapter, "completion").inc(self._num_completion)

    def _observe_first_token(self, output: Any, now: float) -> None:
        # Without streaming the one output comes at the end; vLLM's own record knows when the first token did.
        waited_s = now - self._start
        if output.finished and output.metrics is not None:
            waited_s = output.metrics.first_token_latency
        self._metrics.time_to_first_token.labels(self._adapter).observe(waited_s)

    def _take_tokens(self, index: int, num_new: int, now: float) -> None:
        self._num_completion += num_new
        last = self._last.setdefault(index, now)
        if last != now and num_new:
            # A chunk can hold several tokens: each took its share of the gap.
            for _ in range(num_new):
                self._between.observe((now - last) / num_new)
            self._last[index] = now
