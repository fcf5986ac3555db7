import json

import pytest

from lorikeet.serve.gate import Gate
from lorikeet.serve.lifecycle import Lifecycle, State
from lorikeet.serve.timeline import Timeline


@pytest.fixture
def lifecycle():
    return Lifecycle()


@pytest.fixture
def gate(lifecycle, metrics, tmp_path):
    gate = Gate(lifecycle, Timeline(tmp_path, 0.0), metrics, retry_after_s=7)

    async def app(scope, receive, send):
        assert gate.num_in_flight == 1
        status = 503 if b"busy" in dict(scope["headers"]) else 200
        names = b",".join(name for name, _ in scope["headers"])
        await send({"type": "http.response.start", "status": status, "headers": [(b"x-seen", names)]})
        await send({"type": "http.response.body", "body": b"inner"})

    gate.app = app
    return gate


@pytest.mark.parametrize("state", [State.STARTING, State.DRAINING, State.FAILED])
def test_it_refuses_while_not_ready_and_says_when_to_come_again(
    gate, lifecycle, registry, request_app, state
):
    lifecycle.enter(state, "the engine died")
    answer = request_app(gate, "/v1/chat/completions")
    assert answer.status == 503
    assert answer.headers["retry-after"] == "7"
    assert json.loads(answer.body)["error"]["type"] == "service_unavailable"
    assert registry.get_sample_value("lorikeet_requests_rejected_total", {"reason": state.value}) == 1


def test_it_passes_when_ready_and_counts_what_is_in_flight(gate, lifecycle, request_app):
    lifecycle.enter(State.READY)
    answer = request_app(gate, "/v1/completions")
    assert (answer.status, answer.body) == (200, b"inner")
    assert gate.num_in_flight == 0


def test_a_refusal_by_the_engine_gets_a_retry_after(gate, lifecycle, request_app):
    lifecycle.enter(State.READY)
    answer = request_app(gate, "/v1/completions", headers=[(b"busy", b"1")])
    assert (answer.status, answer.headers["retry-after"]) == (503, "7")


@pytest.mark.parametrize(
    ("request_id", "kept"),
    [(b"abc-1.2:3_4", True), (b"a" * 129, False), (b"a b", False), (b"", False), (b"\xff", False)],
)
def test_only_a_sound_request_id_reaches_the_engine(gate, lifecycle, request_app, request_id, kept):
    lifecycle.enter(State.READY)
    answer = request_app(gate, headers=[(b"x-request-id", request_id), (b"accept", b"*/*")])
    assert answer.headers["x-seen"] == ("x-request-id,accept" if kept else "accept")
