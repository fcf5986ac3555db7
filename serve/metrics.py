"""Every metric Lorikeet exports (prefix `lorikeet_`), defined on a registry that is passed in."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from lorikeet.serve.lifecycle import Lifecycle, State
from lorikeet.serve.timeline import Timeline

# Seconds; from one decode step of a small model to a long request. Ratio at most 2.5 between neighbours.
LATENCY_BUCKETS = (
    *(0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075),
    *(
        0.1,
        0.15,
        0.2,
        0.3,
        0.5,
        0.75,
        1.0,
        1.5,
        2.0,
        3.0,
        5.0,
        7.5,
        10.0,
        15.0,
        20.0,
        30.0,
        60.0,
        120.0,
        300.0,
    ),
)

OUTCOMES = ("ok", "length", "error", "cancelled")
KINDS = ("prompt", "completion")
REJECTIONS = (
    *("starting", "draining", "failed"),  # the server's state
    *("body_too_large", "queue_full", "adapter_limit", "rate", "key"),
)


class Metrics:
    """The request metrics. `adapter` is the base model's name or a loaded adapter's, never client text."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "lorikeet_requests", "Finished requests.", ["adapter", "outcome"], registry=registry
        )
        self.time_to_first_token = Histogram(
            "lorikeet_time_to_first_token_seconds",
            "From the engine's acceptance of a request to its first token.",
            ["adapter"],
            buckets=LATENCY_BUCKETS,
            registry=registry,
        )
        self.time_between_tokens = Histogram(
            "lorikeet_time_between_tokens_seconds",
            "Gap between consecutive tokens of streamed requests.",
            ["adapter"],
            buckets=LATENCY_BUCKETS,
            registry=registry,
        )
        self.request_seconds = Histogram(
            "lorikeet_request_seconds",
            "From the engine's acceptance of a request to its end.",
            ["adapter"],
            buckets=LATENCY_BUCKETS,
            registry=registry,
        )
        self.tokens = Counter(
            "lorikeet_tokens",
            "Tokens read (prompt) and written (completion).",
            ["adapter", "kind"],
            registry=registry,
        )
        self.requests_in_flight = Gauge(
            "lorikeet_requests_in_flight", "Requests in the engine.", ["adapter"], registry=registry
        )
        self.requests_rejected = Counter(
            "lorikeet_requests_rejected", "Requests refused before the engine.", ["reason"], registry=registry
        )
        for reason in REJECTIONS:
            self.requests_rejected.labels(reason)

    def expect(self, adapter: str) -> None:
        """Begin every series of an adapter at zero: a rate can't see the event that a series begins with."""
        for outcome in OUTCOMES:
            self.requests.labels(adapter, outcome)
        for kind in KINDS:
            self.tokens.labels(adapter, kind)
        for metric in (self.time_to_first_token, self.time_between_tokens, self.request_seconds):
            metric.labels(adapter)
        self.requests_in_flight.labels(adapter)

    def forget(self, adapter: str) -> None:
        """Drop every series of an adapter that is gone."""
        for metric in (self.requests, self.time_to_first_token, self.time_between_tokens,
                       self.request_seconds, self.tokens, self.requests_in_flight):  # fmt: skip
            metric.remove_by_labels({"adapter": adapter})


class StartupCollector(Collector):
    """State and start-up phases, computed when scraped."""

    def __init__(self, lifecycle: Lifecycle, timeline: Timeline) -> None:
        self._lifecycle = lifecycle
        self._timeline = timeline

    def collect(self) -> Iterator[Metric]:
        state = GaugeMetricFamily("lorikeet_state", "1 for the state the server is in.", labels=["state"])
        for name in State:
            state.add_metric([name.value], float(name is self._lifecycle.state))
        yield state
        self._timeline.refresh()
        phases = GaugeMetricFamily(
            "lorikeet_startup_phase_seconds",
            "Time of each start-up phase, so far if it is running, without the phases inside it.",
            labels=["phase", "rank"],
        )
        for time in self._timeline.phases():
            phases.add_metric([time.phase, time.rank], time.seconds)
        yield phases
        yield GaugeMetricFamily(
            "lorikeet_startup_seconds",
            "From process start to ready, or to now while starting.",
            value=self._timeline.seconds,
        )
