"""A real server on the demo model, one for the session, and others for the tests that end them."""

import threading
import time
from collections.abc import Callable, Iterator

import adapter_server as adapter_server_module
import httpx
import pytest
from adapter_server import AdapterServer
from live_server import POLL_S, Launcher, Poll, RunningServer

from lorikeet.serve.demo.smollm2 import DEMO_NAME


@pytest.fixture(scope="session")
def server(launch: Launcher, tmp_path_factory: pytest.TempPathFactory) -> RunningServer:
    """The shared server, in float32 so that its text can be compared; polled while it starts."""
    running = launch(
        *(
            "demo",
            "--dtype",
            "float32",
            "--max-num-seqs",
            "4",
            "--max-num-queued-reqs",
            "6",
            "--max-logprobs",
            "5",
        ),
        *("--enable-auto-tool-choice", "--tool-call-parser", "hermes"),
        LORIKEET_MAX_BODY_BYTES="65536",
        VLLM_CACHE_ROOT=str(tmp_path_factory.mktemp("cache")),  # as on a first start
    )
    _poll_until_ready(running)
    return running


@pytest.fixture(scope="session")
def adapter_server(launch: Launcher, tmp_path_factory: pytest.TempPathFactory) -> AdapterServer:
    """A server with keys, two adapter slots and a watched folder that is full of bad adapters."""
    started = adapter_server_module.start(launch, tmp_path_factory.mktemp("adapters"))
    started.running.wait_until_ready()
    return started


@pytest.fixture(scope="session")
def victims() -> list[RunningServer]:
    """Ready servers that no test has ended yet."""
    return []


@pytest.fixture
def victim(victims: list[RunningServer], launch: Launcher) -> RunningServer:
    """A ready server for this one test to end. They start in pairs: much of a start uses one core."""
    if not victims:
        victims += [launch("demo", LORIKEET_DRAIN_S="20") for _ in range(2)]
        for running in victims:
            running.wait_until_ready()
    return victims.pop()


def _poll_until_ready(running: RunningServer) -> None:
    with httpx.Client(base_url=running.url, timeout=30) as client:
        while not (running.polls and running.polls[-1].readyz == 200):
            running.check_alive()
            begin = time.monotonic()
            try:
                # Readiness first: a completion that fails after "ready" is the fault that this looks for.
                readyz = client.get("/readyz").status_code
                completion = client.post(
                    "/v1/completions", json={"model": DEMO_NAME, "prompt": "1 2 3", "max_tokens": 1}
                ).status_code
                running.polls.append(
                    Poll(
                        begin - running.started,
                        client.get("/livez").status_code,
                        readyz,
                        completion,
                        client.get("/metrics").text,
                        client.get("/status.json").json(),
                    )
                )
            except httpx.ConnectError:
                pass  # before the socket is bound
            time.sleep(max(0.0, POLL_S - (time.monotonic() - begin)))


@pytest.fixture
def in_background() -> Iterator[Callable[[Callable[[], None]], threading.Thread]]:
    """Runs calls in threads that are joined at the end of the test."""
    threads: list[threading.Thread] = []

    def run(call: Callable[[], None]) -> threading.Thread:
        threads.append(threading.Thread(target=call))
        threads[-1].start()
        return threads[-1]

    yield run
    for thread in threads:
        thread.join(60)
