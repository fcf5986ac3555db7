"""Servers to time from process start to ready: vLLM's own and `lorikeet serve`, with caches of their own."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

LOG_TAIL = 60  # lines
CACHES = ("VLLM_CACHE_ROOT", "TRITON_CACHE_DIR", "FLASHINFER_WORKSPACE_BASE", "CUDA_CACHE_PATH")
COMMON = {
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",  # it would be compiled with nvcc where no compiled kernels are
    "HF_HUB_OFFLINE": "1",
    "PYTHONSAFEPATH": "1",  # our folder kernels/ must not be found under that name
}
COMMANDS = {
    "vllm": ["-m", "vllm.entrypoints.launchers.api_server.entry", "--model"],
    "lorikeet": ["-c", "from lorikeet.serve.cli import main; main()", "serve"],
}
# What vLLM's log says of its phases. Its own server has no other account of them.
STOCK_PHASES = {
    "weights": r"Model loading took .* and ([\d.]+) seconds",
    "compile": r"torch\.compile took ([\d.]+) s in total",
    "graph_capture": r"Graph capturing finished in ([\d.]+) secs",
    "engine_init": r"init engine .* took ([\d.]+) s",
}
AUTOTUNE = r"(\d\d):(\d\d):(\d\d),(\d{3}) .*Autotuning process (?:starts|ends)"


@dataclass
class StartingServer:
    """One process; `caches` is a folder that outlives it, `folder` holds its log."""

    implementation: str
    folder: Path
    caches: Path
    port: int
    arguments: Sequence[str]  # the model first
    environment: dict[str, str] = field(default_factory=dict)

    def start(self) -> None:
        self.folder.mkdir(parents=True)
        env = {name: value for name, value in os.environ.items() if not name.startswith("LORIKEET_")}
        env |= COMMON | self.environment
        if self.implementation == "lorikeet":
            env |= {"LORIKEET_CACHE_DIR": str(self.caches), "LORIKEET_DEBUG": "1"}
        else:
            env |= {name: str(self.caches / name.lower()) for name in CACHES}
        command = [sys.executable, *COMMANDS[self.implementation], *self.arguments, "--port", str(self.port)]
        self._begin = time.monotonic()
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True)

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def wait_until_ready(self, limit_s: float) -> float:
        """Seconds from process start to ready.

        Raises:
            RuntimeError: it ended or took longer; the text has the end of the log.
        """
        while True:
            took_s = time.monotonic() - self._begin
            if self.process.poll() is not None or took_s > limit_s:
                tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-LOG_TAIL:])
                raise RuntimeError(f"{self.implementation} was not ready after {took_s:.0f} s:\n{tail}")
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=5):
                    return time.monotonic() - self._begin
            except (urllib.error.URLError, TimeoutError, ConnectionError):
                time.sleep(0.1)  # stock does not listen before it is ready, ours says 503

    def phases(self) -> dict[str, float]:
        """Seconds of each phase: ours from its status, stock's from its log, where phases overlap."""
        if self.implementation == "lorikeet":
            return {
                phase["phase"]: phase["seconds"]
                for phase in self.status()["startup"]["phases"]
                if phase["rank"] in ("0", "api")
            }
        return stock_phases(self.log.read_text(errors="replace"))

    def status(self) -> dict:
        with urllib.request.urlopen(f"{self.url}/status.json", timeout=10) as answer:
            return json.load(answer)

    def log_lines(self, *words: str) -> list[str]:
        lines = self.log.read_text(errors="replace").splitlines()
        return [line for line in lines if any(word in line.lower() for word in words)]

    def stop(self) -> None:
        """Orderly, so that caches are complete, and then everything that is left of it."""
        self.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(20)
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self.process.wait()


def stock_phases(log: str) -> dict[str, float]:
    found = {name: re.findall(pattern, log) for name, pattern in STOCK_PHASES.items()}
    phases = {name: sum(map(float, times)) for name, times in found.items() if times}
    marks = [
        ((int(h) * 60 + int(m)) * 60 + int(s)) * 1000 + int(ms) for h, m, s, ms in re.findall(AUTOTUNE, log)
    ]
    if marks:
        phases["flashinfer_autotune"] = (marks[-1] - marks[0]) / 1000
    return phases
