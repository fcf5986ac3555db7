"""What Prometheus sees of adapters: those in the catalogue, and loads counted by outcome."""

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from lorikeet.serve.adapters.entry import AdapterState, Entry
from lorikeet.serve.adapters.reason import Reason

LOAD_BUCKETS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
DIGEST_CHARACTERS = 12


class AdapterMetrics:
    """Counters of loads. Reasons are `Reason`'s, "" for a load that worked."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.loads = Counter(
            "lorikeet_adapter_loads",
            "Adapters that were to be loaded: outcome ok or refused, and why.",
            ["outcome", "reason"],
            registry=registry,
        )
        self.loads.labels("ok", "")  # there before the first load, so that a rate sees it
        for reason in Reason:
            self.loads.labels("refused", reason.value)
        self.load_seconds = Histogram(
            "lorikeet_adapter_load_seconds",
            "From an adapter's request to its first possible use: copy, check, load.",
            buckets=LOAD_BUCKETS,
            registry=registry,
        )


class AdapterCollector(Collector):
    """The catalogue when it is scraped. Adapters that are gone have no series."""

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self._entries = entries

    def collect(self) -> Iterator[Metric]:
        info = GaugeMetricFamily(
            "lorikeet_adapter_info",
            "1 for each adapter that is served, with its rank and the start of its digest.",
            labels=["adapter", "rank", "digest"],
        )
        state = GaugeMetricFamily(
            "lorikeet_adapter_state", "1 for the state that an adapter is in.", labels=["adapter", "state"]
        )
        for entry in list(self._entries.values()):
            if entry.state is AdapterState.REMOVED:
                continue
            state.add_metric([entry.name, entry.state.value], 1)
            if entry.is_listed and entry.version:
                version = entry.version
                info.add_metric([entry.name, str(version.rank), version.digest[:DIGEST_CHARACTERS]], 1)
        yield info
        yield state
