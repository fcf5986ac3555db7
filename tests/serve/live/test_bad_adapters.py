"""Every bad adapter against a real server, at its start and later: each fails alone, with its reason."""

import time

import psutil
import pytest
from adapter_server import BASE, CLIENT
from bad_adapters import CASES, LINKS, make

MODELS = (BASE, "pirate", "json", "watched-json")
LOOPBACK = ("127.", "::1", "::ffff:127.")


@pytest.fixture(scope="module")
def texts(adapter_server) -> dict[str, str]:
    """What each good model answers before any bad adapter is put."""
    return {model: adapter_server.text(model) for model in MODELS}


def test_at_boot_the_good_serve_and_the_bad_say_why(adapter_server, texts):
    document = adapter_server.admin("GET", "/status.json").json()["adapters"]
    adapters = {adapter["name"]: adapter for adapter in document}
    assert {adapters[name]["state"] for name in MODELS[1:]} == {"serving"}
    log = adapter_server.running.log.read_text()
    for case in [*CASES, *LINKS]:
        shown = adapters[case.name]
        assert shown["state"] == "refused"
        assert case.name in shown["reason"]
        assert shown["reason"] in log
    states = adapter_server.samples("lorikeet_adapter_state")
    assert {labels for labels in states if labels[1] == "refused"} == {
        (case.name, "refused") for case in [*CASES, *LINKS]
    }
    assert len(set(texts.values())) == 3  # json and watched-json are one content
    assert texts["json"] == texts["watched-json"]


def test_only_good_ones_are_listed_with_their_base(adapter_server):
    cards = {card.id: card for card in adapter_server.client().models.list()}
    assert set(cards) == set(MODELS)
    assert {cards[name].parent for name in MODELS[1:]} == {BASE}


def test_while_running_each_is_refused_and_disturbs_nothing(adapter_server, texts, in_background):
    streamed: list[str] = []
    expected = adapter_server.text("pirate", 40)
    loads = adapter_server.samples("lorikeet_adapter_loads_total")
    running = in_background(lambda: streamed.extend(adapter_server.stream("pirate", 40)))
    listed = adapter_server.admin("GET", "/v1/models").json()["data"]
    for case in [*CASES, *LINKS]:
        folder = make(case, adapter_server.root)
        begin = time.monotonic()
        answer = adapter_server.put(f"bad-{case.name}", folder)
        assert time.monotonic() - begin < 5
        assert answer.status_code == 400, answer.text
        error = answer.json()["error"]
        assert error["message"].startswith(f"adapter 'bad-{case.name}': ")
        assert "; " in error["message"]  # what to do
        assert (error["type"], error["code"]) == ("invalid_request_error", 400)
        # Under a good one's name, it must leave that one as it is.
        assert adapter_server.put("json", folder).status_code == 400
    running.join(60)
    assert "".join(streamed) == expected
    names = [card["id"] for card in adapter_server.admin("GET", "/v1/models").json()["data"]]
    assert names == [card["id"] for card in listed]
    assert {model: adapter_server.text(model) for model in MODELS} == texts
    after = adapter_server.samples("lorikeet_adapter_loads_total")
    assert sum(after.values()) - sum(loads.values()) == 2 * len([*CASES, *LINKS])
    assert after["ok", ""] == loads["ok", ""]
    assert "bad-" not in adapter_server.running.metrics()


def test_paths_outside_the_roots_get_one_answer_and_nothing_connects(adapter_server):
    outside = ["/etc", "/no/such", str(adapter_server.root / ".." / "keys.json"), "owner/name", "../.."]
    answers = [adapter_server.admin("PUT", "/admin/adapters/x", {"path": path}) for path in outside]
    assert {answer.status_code for answer in answers} == {400}
    assert len({answer.text for answer in answers}) == 1
    hub = {"repo": "owner/name", "revision": "0" * 40}
    assert "LORIKEET_ALLOW_HUB" in adapter_server.admin("PUT", "/admin/adapters/x", hub).text
    process = psutil.Process(adapter_server.running.process.pid)
    remotes = {connection.raddr.ip for connection in process.net_connections("inet") if connection.raddr}
    assert all(ip.startswith(LOOPBACK) for ip in remotes), remotes


def test_a_client_cannot_name_an_adapter_into_being(adapter_server):
    import httpx

    headers = {"authorization": f"Bearer {CLIENT}"}
    for model in ("rank-zero", "../json", "/etc", "owner/name"):
        body = {"model": model, "prompt": "1", "max_tokens": 1}
        answer = httpx.post(f"{adapter_server.url}/v1/completions", json=body, headers=headers, timeout=30)
        assert answer.status_code == 404
        assert answer.json()["error"]["code"] == 404
