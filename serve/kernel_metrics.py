"""Which LoRA kernels run and why, for Prometheus, from what the workers decided while they started."""

from collections.abc import Iterator
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from lorikeet.kernels.platform_hook import DECISION
from lorikeet.serve.timeline import Timeline

OPERATOR = "lora_linear"


class KernelCollector(Collector):
    """Reads the journal when scraped; workers of several ranks that agree are one series."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline

    def collect(self) -> Iterator[Metric]:
        self._timeline.refresh()
        decisions = self._details("decision")
        kernel = GaugeMetricFamily(
            "lorikeet_lora_kernel",
            "1 for the implementation of the LoRA operator that runs, and the reason for it.",
            labels=["op", "implementation", "reason"],
        )
        for implementation, reason in sorted({(d["implementation"], d["reason"]) for d in decisions}):
            kernel.add_metric([OPERATOR, implementation, reason], 1)
        yield kernel
        seam_ok = GaugeMetricFamily(
            "lorikeet_kernel_seam_ok",
            "1 where vLLM is as our kernels expect, 0 where it has changed.",
            labels=["seam"],
        )
        for seam in sorted({seam for d in decisions for seam in d["seams"]}):
            seam_ok.add_metric([seam], float(all(d["seams"].get(seam, True) for d in decisions)))
        yield seam_ok
        calls = CounterMetricFamily(
            "lorikeet_lora_kernel_calls",
            "Times that vLLM ran our LoRA operator before the server was ready; graph replays aren't seen.",
            labels=["op"],
        )
        notes = self._details("note")
        if notes:
            calls.add_metric([OPERATOR], sum(note["calls"] for note in notes))
        yield calls

    def _details(self, event: str) -> list[dict[str, Any]]:
        lines = self._timeline.decisions
        return [line["detail"] for line in lines if line["phase"] == DECISION and line["event"] == event]
