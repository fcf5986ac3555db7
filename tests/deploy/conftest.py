"""The whole stack but Grafana: a server of its own, watched by a real Prometheus from before its start."""

from collections.abc import Iterator
from dataclasses import dataclass

import prometheus_server
import pytest
from live_server import Launcher, RunningServer, free_port
from prometheus_server import RunningPrometheus

RULES_S = 12  # rules look every 5 s
MODELS = ("smollm2-135m", "pirate", "json")


@dataclass(frozen=True)
class Stack:
    """A server and the Prometheus that watches it."""

    server: RunningServer
    prometheus: RunningPrometheus


@pytest.fixture(scope="session")
def stack(launch: Launcher, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Prometheus has seen the start, and one streamed request to the base model and to each adapter."""
    port = free_port()
    prometheus = prometheus_server.start(tmp_path_factory.mktemp("prometheus"), f"127.0.0.1:{port}")
    try:
        server = launch("demo", port=port)
        server.wait_until_ready()
        prometheus.wait_for('lorikeet_state{state="ready"} == 1')
        for model in MODELS:
            _ask(server, model)
        prometheus.wait_for(f"sum(lorikeet_requests_total offset {RULES_S}s) == {len(MODELS)}")
        yield Stack(server, prometheus)
    finally:
        prometheus.stop()


def _ask(server: RunningServer, model: str) -> None:
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    stream = server.client.chat.completions.create(model=model, messages=messages, max_tokens=16, stream=True)
    assert [chunk for chunk in stream if chunk.choices]
