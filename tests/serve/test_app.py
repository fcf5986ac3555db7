"""Our own routes in every state, through FastAPI, with no engine."""

import pytest
from fastapi.testclient import TestClient

from lorikeet.serve.app import build_app
from lorikeet.serve.lifecycle import Lifecycle, State
from lorikeet.serve.settings import Settings
from lorikeet.serve.timeline import Timeline

READY_STATUS = {State.STARTING: 503, State.READY: 200, State.DRAINING: 503, State.FAILED: 503}


@pytest.fixture(params=list(State))
def state(request):
    return request.param


@pytest.fixture
def client(state, tmp_path):
    lifecycle = Lifecycle()
    lifecycle.enter(state, "why")
    return TestClient(build_app(Settings(), lifecycle, Timeline(tmp_path, 0.0)).asgi)


def test_it_lives_in_every_state(client):
    assert client.get("/livez").status_code == 200


@pytest.mark.parametrize("path", ["/readyz", "/health"])
def test_only_ready_is_200(client, state, path):
    answer = client.get(path)
    assert answer.status_code == READY_STATUS[state]
    assert answer.json()["state"] == state.value
    assert ("retry-after" in answer.headers) == (state is not State.READY)


def test_metrics_and_status_name_the_state(client, state):
    assert f'lorikeet_state{{state="{state.value}"}} 1.0' in client.get("/metrics").text
    assert client.get("/status.json").json()["state"] == state.value


def test_the_page_is_whole(client):
    page = client.get("/status")
    assert page.headers["content-type"].startswith("text/html")
    assert "status.json" in page.text


def test_an_unknown_route_is_openais_404(client):
    assert client.get("/nothing").json()["error"]["code"] == 404
