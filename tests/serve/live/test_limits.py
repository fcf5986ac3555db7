"""What the shared server refuses, and that the rest goes on."""

import concurrent.futures

import httpx
import pytest

BASE = "smollm2-135m"


def complete(server, max_tokens: int = 4, **extra) -> httpx.Response:
    body = {"model": BASE, "prompt": "1 2 3 4", "max_tokens": max_tokens, "ignore_eos": True} | extra
    return httpx.post(f"{server.url}/v1/completions", json=body, timeout=120)


def test_a_large_declared_body_is_413(server):
    answer = complete(server, prompt="x" * 70_000)
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == 413


def test_a_large_chunked_body_is_413(server):
    def chunks():
        yield b'{"model": "smollm2-135m", "prompt": "'
        for _ in range(20):
            yield b"x" * 4096
        yield b'"}'

    headers = {"content-type": "application/json"}
    answer = httpx.post(f"{server.url}/v1/completions", content=chunks(), headers=headers, timeout=60)
    assert answer.status_code == 413


def test_a_full_queue_refuses_with_retry_after_and_the_accepted_finish(server):
    # 4 run and 2 may wait; 14 at once leave some to refuse.
    with concurrent.futures.ThreadPoolExecutor(14) as pool:
        answers = list(pool.map(lambda _: complete(server, max_tokens=48), range(14)))
    accepted = [answer for answer in answers if answer.status_code == 200]
    refused = [answer for answer in answers if answer.status_code in (429, 503)]
    assert len(accepted) + len(refused) == 14
    assert len(accepted) >= 6
    assert refused
    assert all(int(answer.headers["retry-after"]) > 0 for answer in refused)
    assert all("error" in answer.json() for answer in refused)
    assert all(answer.json()["usage"]["completion_tokens"] == 48 for answer in accepted)


@pytest.mark.parametrize(
    "path",
    ["/invocations", "/tokenize", "/adapters", "/load", "/version", "/docs", "/openapi.json",
     "/v1/load_lora_adapter", "/v1/../invocations", "//v1/models", "/v1/models/", "/ping"],
)  # fmt: skip
def test_unnamed_routes_are_404_with_openais_error_object(server, path):
    answer = httpx.post(server.url + path, json={}, timeout=10)
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == 404
