"""A real server on the demo model, one for the session, and others for the tests that end them.

Every test below this folder needs them, so each is marked `server`.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import adapter_server as adapter_server_module
import httpx
import psutil
import pytest
from adapter_server import AdapterServer
from openai import OpenAI

from lorikeet.serve.demo.smollm2 import DEMO_NAME, prepare

ROOT = Path(__file__).parents[3]
READY_S = 400  # two slow cores that also run other tests
POLL_S = 0.2


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("server")


@dataclass
class Poll:
    """What the server answered at one moment of its start."""

    seconds: float
    livez: int
    readyz: int
    completion: int
    metrics: str
    status: dict


@dataclass
class RunningServer:
    """A `lorikeet` process with its port and its log."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path
    started: float
    polls: list[Poll] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def client(self) -> OpenAI:
        return OpenAI(base_url=f"{self.url}/v1", api_key="unused", max_retries=0, timeout=120)

    def get(self, path: str) -> httpx.Response:
        return httpx.get(self.url + path, timeout=10)

    def metrics(self) -> str:
        return self.get("/metrics").text

    def descendants(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def engine_core(self) -> psutil.Process | None:
        """The engine's process, None before there is one."""
        for process in self.descendants():
            with contextlib.suppress(psutil.Error):  # it can end while we look
                if "EngineCore" in " ".join(process.cmdline()):
                    return process
        return None

    def wait_until_ready(self) -> None:
        while self.get_status() != 200:
            self.check_alive()
            time.sleep(POLL_S)

    def get_status(self) -> int:
        try:
            return self.get("/readyz").status_code
        except httpx.TransportError:
            return 0

    def check_alive(self) -> None:
        assert self.process.poll() is None, f"the server ended: {self.log.read_text()[-3000:]}"
        assert time.monotonic() - self.started < READY_S, self.log.read_text()[-3000:]

    def stop(self) -> None:
        """End it whatever it does, and everything below it."""
        below = self.descendants() if self.process.poll() is None else []
        for process in [*below, self.process]:
            try:
                process.send_signal(signal.SIGKILL)
            except (psutil.NoSuchProcess, ProcessLookupError):
                continue
        self.process.wait()


Launcher = Callable[..., RunningServer]


@pytest.fixture(scope="session")
def model_dir() -> Path:
    """The demo model, prepared once in the checkout."""
    return prepare(ROOT / ".demo" / DEMO_NAME)


@pytest.fixture(scope="session")
def launch(tmp_path_factory: pytest.TempPathFactory, model_dir: Path) -> Iterator[Launcher]:
    """Starts servers: launch("serve" | "demo", *arguments, **environment), each on a free port."""
    servers: list[RunningServer] = []

    def start(*arguments: str, port: int | None = None, **environment: str) -> RunningServer:
        folder = tmp_path_factory.mktemp("server")
        port = port or free_port()
        set_here = ("LORIKEET_", "VLLM_", "PYTHONSAFEPATH")
        env = {name: value for name, value in os.environ.items() if not name.startswith(set_here)}
        env |= {"LORIKEET_CACHE_DIR": str(model_dir.parent), "HF_HUB_OFFLINE": "1"}
        command = [str(Path(sys.executable).with_name("lorikeet")), *arguments, "--port", str(port)]
        log = folder / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(command, env=env | environment, cwd=ROOT, stdout=output, stderr=output)
        servers.append(RunningServer(process, port, log, time.monotonic()))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


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


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


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
