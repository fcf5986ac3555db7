from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.parser import text_string_to_metric_families

from lorikeet.serve.exposition import Joined


def test_two_registries_join_and_the_unbounded_family_is_left_out():
    ours, engine = CollectorRegistry(), CollectorRegistry()
    Gauge("lorikeet_x", "x", registry=ours).set(1)
    Gauge("vllm:num_requests_running", "x", registry=engine).set(2)
    Gauge("vllm:lora_requests_info", "x", ["running_lora_adapters"], registry=engine).labels("a,b").set(3)
    assert [family.name for family in Joined(ours, engine).collect()] == [
        "lorikeet_x",
        "vllm:num_requests_running",
    ]


def test_the_text_parses_with_the_engines_own_metrics_in_it():
    from lorikeet.serve.exposition import exposition

    ours = CollectorRegistry()
    Gauge("lorikeet_x", "x", registry=ours).set(1)
    text, content_type = exposition(ours)
    names = {family.name for family in text_string_to_metric_families(text.decode())}
    assert {"lorikeet_x", "python_info"} <= names
    assert content_type.startswith("text/plain; version=0.0.4")
