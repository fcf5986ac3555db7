"""Counters against requests that the test made itself."""

import time

import httpx
import openai
import pytest
from prometheus_client.parser import text_string_to_metric_families

BASE = "smollm2-135m"


def scrape(server) -> dict[tuple[str, frozenset], float]:
    """(sample name, labels) → value of everything that is ours."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(server.metrics())
        for sample in family.samples
        if sample.name.startswith("lorikeet_")
    }


def count(samples, name: str, **labels: str) -> float:
    return samples.get((f"lorikeet_{name}", frozenset(labels.items())), 0.0)


@pytest.fixture
def idle(server):
    """Wait until earlier tests' requests are gone."""
    wait_for_idle(server)


def wait_for_idle(server, within_s: float = 10.0) -> None:
    end = time.monotonic() + within_s
    while any(value for (name, _), value in scrape(server).items() if name == "lorikeet_requests_in_flight"):
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.usefixtures("idle")
def test_counters_equal_a_known_mix_exactly(server):
    def ask(model: str, num_tokens: int, stream: bool = False):
        options = {"max_tokens": num_tokens, "temperature": 0, "extra_body": {"ignore_eos": True}}
        answer = server.client.completions.create(model=model, prompt="1 2 3", stream=stream, **options)
        return list(answer) if stream else answer

    before = scrape(server)
    num_prompt = ask(BASE, 5).usage.prompt_tokens
    ask(BASE, 5, stream=True)
    ask("pirate", 7, stream=True)
    for _ in range(3):
        ask("json", 2)
    server.client.completions.create(model="json", prompt="1 2 3", max_tokens=20, stop=[" ", "1", "4", ","])
    wait_for_idle(server)
    after = scrape(server)
    assert scrape(server) == after  # scraping changes nothing

    def grew(name: str, **labels: str) -> float:
        return count(after, name, **labels) - count(before, name, **labels)

    assert grew("requests_total", adapter=BASE, outcome="length") == 2
    assert grew("requests_total", adapter="pirate", outcome="length") == 1
    assert grew("requests_total", adapter="json", outcome="length") == 3
    assert grew("requests_total", adapter="json", outcome="ok") == 1
    assert grew("tokens_total", adapter=BASE, kind="completion") == 10
    assert grew("tokens_total", adapter=BASE, kind="prompt") == 2 * num_prompt
    assert grew("tokens_total", adapter="pirate", kind="completion") == 7
    assert grew("time_to_first_token_seconds_count", adapter=BASE) == 2
    assert grew("time_between_tokens_seconds_count", adapter=BASE) == 4  # of the streamed one
    assert grew("time_between_tokens_seconds_count", adapter="pirate") == 6
    assert grew("time_between_tokens_seconds_count", adapter="json") == 0
    assert grew("request_seconds_count", adapter="json") == 4


@pytest.mark.usefixtures("idle")
def test_unknown_model_names_add_no_series(server):
    before = set(scrape(server))
    for number in range(200):
        with pytest.raises(openai.NotFoundError):
            server.client.completions.create(model=f"guess-{number}", prompt="1", max_tokens=1)
    assert set(scrape(server)) == before


@pytest.mark.usefixtures("idle")
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_a_client_that_goes_away_frees_the_engine(server, stream):
    before = count(scrape(server), "requests_total", adapter="pirate", outcome="cancelled")
    body = {"model": "pirate", "prompt": "1", "max_tokens": 1500, "ignore_eos": True, "stream": stream}
    with httpx.Client(base_url=server.url, timeout=httpx.Timeout(60, read=None if stream else 1.5)) as client:
        if stream:
            with client.stream("POST", "/v1/completions", json=body) as answer:
                next(answer.iter_lines())
        else:
            with pytest.raises(httpx.ReadTimeout):
                client.post("/v1/completions", json=body)
    wait_for_idle(server, within_s=3)
    assert count(scrape(server), "requests_total", adapter="pirate", outcome="cancelled") == before + 1


def test_vllms_unbounded_gauge_is_left_out(server):
    text = server.metrics()
    assert "vllm:num_requests_running" in text
    assert "vllm:lora_requests_info" not in text
