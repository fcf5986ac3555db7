"""`/metrics`: our registry and vLLM's in one text, read anew for each scrape."""

from collections.abc import Iterator

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

# vLLM makes a series of this gauge for every combination of running adapters and drops none of them.
UNBOUNDED = frozenset({"vllm:lora_requests_info"})


class Joined(Collector):
    """The families of two registries one after the other, less the unbounded ones."""

    def __init__(self, ours: CollectorRegistry, engine: CollectorRegistry = REGISTRY) -> None:
        self._registries = (ours, engine)

    def collect(self) -> Iterator[Metric]:
        for registry in self._registries:
            yield from (family for family in registry.collect() if family.name not in UNBOUNDED)


def exposition(ours: CollectorRegistry) -> tuple[bytes, str]:
    """The Prometheus text format, with its content type."""
    return generate_latest(Joined(ours)), CONTENT_TYPE_PLAIN_0_0_4
