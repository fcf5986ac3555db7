"""The request metrics' series: there at zero before the first event, so that rates see it."""

from prometheus_client import CollectorRegistry

from lorikeet.serve.metrics import KINDS, OUTCOMES, REJECTIONS, Metrics


def samples(registry: CollectorRegistry) -> dict[str, float]:
    """Name and label values → value, buckets left out."""
    return {
        " ".join([sample.name, *sample.labels.values()]): sample.value
        for family in registry.collect()
        for sample in family.samples
        if not sample.name.endswith(("_bucket", "_created"))
    }


def test_refusals_begin_at_zero(registry):
    Metrics(registry)
    assert samples(registry) == {f"lorikeet_requests_rejected_total {reason}": 0 for reason in REJECTIONS}


def test_an_expected_adapter_has_every_series_at_zero(registry):
    Metrics(registry).expect("legal")
    found = {name: value for name, value in samples(registry).items() if " legal" in name}
    assert set(found.values()) == {0}
    histograms = ("time_to_first_token_seconds", "time_between_tokens_seconds", "request_seconds")
    assert found.keys() == {
        *(f"lorikeet_requests_total legal {outcome}" for outcome in OUTCOMES),
        *(f"lorikeet_tokens_total legal {kind}" for kind in KINDS),
        *(f"lorikeet_{name}_{part} legal" for name in histograms for part in ("count", "sum")),
        "lorikeet_requests_in_flight legal",
    }


def test_expecting_an_adapter_again_keeps_its_counts(registry):
    metrics = Metrics(registry)
    metrics.expect("legal")
    metrics.requests.labels("legal", "ok").inc()
    metrics.expect("legal")
    assert samples(registry)["lorikeet_requests_total legal ok"] == 1
