"""`MeasuredEngine` around a staged engine client."""

import asyncio
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry

from lorikeet.serve.metrics import Metrics
from lorikeet.serve.request_metrics import MeasuredEngine


def output(*num_tokens: int, finished: bool = False, reason: str | None = None, index: int | None = None):
    """One RequestOutput with a completion for each count in `num_tokens`."""
    completions = [
        SimpleNamespace(index=i if index is None else index, token_ids=[0] * n, finish_reason=reason)
        for i, n in enumerate(num_tokens)
    ]
    stats = SimpleNamespace(first_token_latency=0.25)
    return SimpleNamespace(prompt_token_ids=[1, 2, 3], outputs=completions, finished=finished, metrics=stats)


class StagedEngine:
    def __init__(self, items):
        self.items = items
        self.closed = False

    async def generate(self, prompt, sampling_params, request_id, **options):
        try:
            for item in self.items:
                if isinstance(item, BaseException):
                    raise item
                yield item
                await asyncio.sleep(0)
        finally:
            self.closed = True

    def check_admission(self, n=1, request_id=None):
        raise RuntimeError("full")


@pytest.fixture
def registry():
    return CollectorRegistry()


def run(registry, items, *, adapter: str | None = None, take: int | None = None) -> StagedEngine:
    """Read `take` items of a measured request, or all."""
    staged = StagedEngine(items)
    engine = MeasuredEngine(staged, Metrics(registry), "base")
    lora = SimpleNamespace(lora_name=adapter) if adapter else None

    async def read():
        outputs = engine.generate("p", None, "id", lora_request=lora)
        num_read = 0
        async for _ in outputs:
            num_read += 1
            if num_read == take:
                break
        await outputs.aclose()

    asyncio.run(read())
    return staged


def value(registry, name, **labels):
    return registry.get_sample_value(f"lorikeet_{name}", labels)


def test_a_stream_counts_every_token_and_gap(registry):
    run(registry, [output(1), output(1), output(2), output(1, finished=True, reason="stop")], adapter="a")
    assert value(registry, "requests_total", adapter="a", outcome="ok") == 1
    assert value(registry, "tokens_total", adapter="a", kind="completion") == 5
    assert value(registry, "tokens_total", adapter="a", kind="prompt") == 3
    assert value(registry, "time_between_tokens_seconds_count", adapter="a") == 4
    assert value(registry, "requests_in_flight", adapter="a") == 0


def test_a_whole_answer_takes_its_first_token_time_from_the_engine(registry):
    run(registry, [output(9, finished=True, reason="length")])
    assert value(registry, "requests_total", adapter="base", outcome="length") == 1
    assert value(registry, "time_to_first_token_seconds_sum", adapter="base") == 0.25
    assert value(registry, "time_between_tokens_seconds_count", adapter="base") == 0


def test_gaps_are_those_of_one_choice_not_between_choices(registry):
    items = [
        output(1, index=0),
        output(1, index=1),
        output(1, index=0),
        output(1, index=1, finished=True, reason="stop"),
    ]
    run(registry, items)
    assert value(registry, "time_between_tokens_seconds_count", adapter="base") == 2
    assert value(registry, "time_to_first_token_seconds_count", adapter="base") == 1


def test_a_reader_that_leaves_is_cancelled_and_closes_the_inner_request(registry):
    staged = run(registry, [output(1), output(1), output(1, finished=True, reason="stop")], take=1)
    assert staged.closed
    assert value(registry, "requests_total", adapter="base", outcome="cancelled") == 1
    assert value(registry, "requests_in_flight", adapter="base") == 0


def test_a_reader_that_leaves_after_the_end_is_no_cancellation(registry):
    run(registry, [output(1, finished=True, reason="stop")], take=1)
    assert value(registry, "requests_total", adapter="base", outcome="ok") == 1
    assert value(registry, "requests_total", adapter="base", outcome="cancelled") == 0


def test_an_engine_error_is_counted_and_passes_on(registry):
    with pytest.raises(OSError, match="dead"):
        run(registry, [output(1), OSError("dead")])
    assert value(registry, "requests_total", adapter="base", outcome="error") == 1


def test_a_refused_admission_is_counted_and_passes_on(registry):
    engine = MeasuredEngine(StagedEngine([]), Metrics(registry), "base")
    with pytest.raises(RuntimeError, match="full"):
        engine.check_admission(1)
    assert value(registry, "requests_rejected_total", reason="queue_full") == 1


def test_everything_else_is_the_engines_own(registry):
    staged = StagedEngine([])
    staged.model_config = object()
    assert MeasuredEngine(staged, Metrics(registry), "base").model_config is staged.model_config
