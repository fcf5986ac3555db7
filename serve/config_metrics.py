"""How the LoRA kernels' block sizes were found, for Prometheus, from what the workers noted."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from lorikeet.kernels.matches import CHOSEN, MATCHES, OPERATORS
from lorikeet.serve.timeline import Timeline


class ConfigCollector(Collector):
    """Reads the journal when scraped; the lookups of all ranks are added up."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline

    def collect(self) -> Iterator[Metric]:
        self._timeline.refresh()
        notes = [
            line["detail"]
            for line in self._timeline.decisions
            if (line["event"], line["phase"]) == ("note", CHOSEN)
        ]
        lookups = CounterMetricFamily(
            "lorikeet_lora_config_lookups",
            "Block sizes looked up, one for each layer shape and bucket of tokens, by how they were found.",
            labels=["op", "match"],
        )
        refused = GaugeMetricFamily(
            "lorikeet_lora_config_folders_refused",
            "Folders of measured block sizes that could not be used, and were left out with a warning.",
        )
        if notes:
            counts: Counter[str] = Counter()
            for note in notes:
                counts.update(note["matches"])
            for op in OPERATORS:
                for match in MATCHES:
                    lookups.add_metric([op, match], counts[match])
            refused.add_metric([], max(note["refused"] for note in notes))
        yield lookups
        yield refused
