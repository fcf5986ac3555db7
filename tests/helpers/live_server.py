"""Starts real `lorikeet` servers with the demo model, for any test that asks for `launch`."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil
import pytest
from openai import OpenAI

from lorikeet.serve.demo.smollm2 import DEMO_NAME, prepare

ROOT = Path(__file__).parents[2]
READY_S = 400  # two slow cores that also run other tests
POLL_S = 0.2


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


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
