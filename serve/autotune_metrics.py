"""FlashInfer's autotune pass for Prometheus and the status: what was decided, and what ran untuned."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from lorikeet.kernels.autotune import PASS
from lorikeet.kernels.registry import report
from lorikeet.kernels.untuned_choices import read_totals
from lorikeet.serve.timeline import Timeline


class AutotuneCollector(Collector):
    """Reads the journal, and the workers' totals in `folder`, when scraped."""

    def __init__(self, timeline: Timeline, folder: Path) -> None:
        self._timeline, self._folder = timeline, folder

    def collect(self) -> Iterator[Metric]:
        self._timeline.refresh()
        decisions = decisions_of(self._timeline)
        info = GaugeMetricFamily(
            "lorikeet_flashinfer_autotune",
            "1 for what was decided on FlashInfer's autotune pass, and the reason for it.",
            labels=["decision", "reason"],
        )
        for outcome, reason in sorted({(d["outcome"], d["reason"]) for d in decisions}):
            info.add_metric([outcome, reason], 1)
        yield info
        passes = [time.seconds for time in self._timeline.phases() if time.phase == PASS]
        if decisions:
            yield GaugeMetricFamily(
                "lorikeet_flashinfer_autotune_seconds",
                "Time of the pass in this start, on the slowest rank; 0 where it did not run.",
                value=max(passes, default=0.0),
            )
        seen = GaugeMetricFamily(
            "lorikeet_flashinfer_tunable_ops",
            "Calls of FlashInfer's autotuner before the server was ready, by operator and what they show in.",
            labels=["op", "evidence"],
        )
        for (operator, period), calls in sorted(_calls(decisions).items()):
            seen.add_metric([operator, period], calls)
        yield seen
        untuned = CounterMetricFamily(
            "lorikeet_flashinfer_untuned_choices",
            "Times that an operator ran untuned while serving; graph replays aren't seen.",
            labels=["op"],
        )
        for operator, choices in sorted(read_totals(self._folder).items()):
            untuned.add_metric([operator], choices)
        yield untuned


def kernel_report(timeline: Timeline) -> dict[str, Any]:
    """The kernel registry and the decision as plain data, for the status."""
    decisions = decisions_of(timeline)
    in_use = {family for d in decisions for family in d["families"]} if decisions else None
    autotune = {key: decisions[0][key] for key in ("outcome", "reason", "text")} if decisions else None
    return {"autotune": autotune, **report(in_use)}


def decisions_of(timeline: Timeline) -> list[dict[str, Any]]:
    """Every rank's decision; none before the workers decide."""
    lines = (line for line in timeline.decisions if line["phase"] == PASS)
    return [line["detail"] for line in lines if line["event"] == "decision"]


def _calls(decisions: list[dict[str, Any]]) -> Counter[tuple[str, str]]:
    calls = Counter[tuple[str, str]]()
    for decision in decisions:
        for period, operators in decision["operators"].items():
            for operator, number in operators.items():
                calls[operator, period] += number
    return calls
