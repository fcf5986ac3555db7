"""Keys on a real server, route by route, and the adapters that a key may see."""

import time

import httpx
import openai
import pytest
from adapter_server import ADMIN, BASE, CLIENT, FEW, write_keys

CLOSED = ("/invocations", "/adapters", "/tokenize", "/detokenize", "/generative_scoring", "/load", "/version",
          "/docs", "/openapi.json", "/ping", "/scale_elastic_ep", "/kv_event_sources",
          "/v1/chat/completions/render",
          "//v1/models", "/v1/models/", "/v1//models", "/v1%2f%2fmodels", "/v1/models%2f", "/%2fv1/models",
          "/v1/%2e%2e/invocations", "/admin/adapters/", "/admin/adapters/..%2f..%2finvocations")  # fmt: skip
GUARDED = (
    ("GET", "/v1/models"),
    ("GET", "/v1%2fmodels"),  # the same route for the server's parser, so for the guard
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/completions"),
    ("POST", "/v1/responses"),
    ("POST", "/v1/messages"),
    ("GET", "/status"),
    ("GET", "/status.json"),
    ("GET", "/admin/adapters"),
    ("PUT", "/admin/adapters/x"),
    ("DELETE", "/admin/adapters/json"),
    ("POST", "/admin/adapters/x/check"),
    ("POST", "/v1/load_lora_adapter"),
    ("POST", "/v1/unload_lora_adapter"),
)
WRONG = {
    "none": {},
    "wrong": {"authorization": "Bearer wrong"},
    "prefix": {"authorization": f"Bearer {CLIENT[:-1]}"},
    "admin's prefix": {"authorization": f"Bearer {ADMIN[:-1]}"},
    "basic": {"authorization": f"Basic {ADMIN}"},
    "bare": {"authorization": ADMIN},
    "empty": {"authorization": "Bearer"},
    "hash": {"authorization": "Bearer " + "0" * 64},
}


@pytest.mark.parametrize("headers", WRONG.values(), ids=WRONG)
def test_guarded_routes_ask_for_a_key(adapter_server, headers):
    with httpx.Client(base_url=adapter_server.url, timeout=30, headers=headers) as client:
        for method, path in GUARDED:
            answer = client.request(method, f"{path}?api_key={ADMIN}&key={ADMIN}", json={})
            assert answer.status_code == 401, (method, path, answer.text)
            assert answer.json()["error"]["code"] == 401
        for path in ("/livez", "/readyz", "/health", "/metrics"):
            assert client.get(path).status_code == 200


def test_unnamed_routes_are_404_even_for_an_admin(adapter_server):
    for path in CLOSED:
        for method in ("GET", "POST"):
            answer = adapter_server.admin(method, path, {})
            assert answer.status_code == 404, (method, path, answer.text)
            assert answer.json()["error"]["code"] == 404


def test_a_clients_key_opens_no_admin_route(adapter_server):
    headers = {"authorization": f"Bearer {CLIENT}"}
    for method, path in GUARDED:
        if "adapter" in path:
            answer = httpx.request(method, adapter_server.url + path, json={}, headers=headers, timeout=30)
            assert answer.status_code == 403, path
    assert adapter_server.state("json") == "serving"


def test_a_key_for_one_adapter_sees_no_other(adapter_server):
    client = adapter_server.client(FEW)
    assert [card.id for card in client.models.list()] == [BASE, "pirate"]
    assert adapter_server.text("pirate", key=FEW)
    messages = set()
    for model in ("json", "no-such-model"):
        with pytest.raises(openai.NotFoundError) as caught:
            adapter_server.text(model, key=FEW)
        messages.add(caught.value.body["message"].replace(model, "X"))
    assert len(messages) == 1


def test_keys_rotate_without_a_restart_and_are_nowhere_to_be_read(adapter_server):
    new = "rotated-key-0123456789"
    with pytest.raises(openai.AuthenticationError):
        adapter_server.text(BASE, key=new)
    write_keys(adapter_server.keys_file, new)
    end = time.monotonic() + 5
    while True:
        try:
            assert adapter_server.text(BASE, 2, key=new)
            break
        except openai.AuthenticationError:
            assert time.monotonic() < end
            time.sleep(0.1)
    write_keys(adapter_server.keys_file)
    time.sleep(2.5)
    with pytest.raises(openai.AuthenticationError):
        adapter_server.text(BASE, key=new)
    log = adapter_server.running.log.read_text()
    arguments = [arg for p in adapter_server.running.descendants() for arg in p.cmdline()]
    environment = [value for p in adapter_server.running.descendants() for value in p.environ().values()]
    for key in (ADMIN, CLIENT, FEW, new):
        assert key not in log
        assert key not in adapter_server.running.metrics()
        assert key not in " ".join([*arguments, *environment])


def test_x_api_key_is_a_key_too(adapter_server):
    answer = httpx.get(f"{adapter_server.url}/v1/models", headers={"x-api-key": CLIENT}, timeout=30)
    assert answer.status_code == 200
