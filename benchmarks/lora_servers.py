"""vLLM's own server with stock LoRA kernels or ours, on a dummy model, for benchmarks."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lorikeet.kernels.fingerprint import fingerprint

IMPLEMENTATIONS = ("lorikeet", "vllm")
WITH_BLOCK_SIZES = ("lorikeet", "lorikeet_default", "vllm", "vllm_tuned")
PACKAGE_TUNED = Path(__file__).parents[1] / "tuned_configs"
LOG_TAIL = 60  # lines


@dataclass
class LoraServer:
    """One server process; its log, its caches and its journal are in `folder`."""

    implementation: str
    folder: Path
    port: int
    arguments: Sequence[str]
    environment: dict[str, str] = field(default_factory=dict)
    kernels: str = "on"
    cache: Path | None = None  # of compiled graphs; default: its own, empty
    keyed: bool = True  # whether graphs are keyed by our fingerprint, as `lorikeet serve` does
    ready_s: float | None = None

    def start(self) -> None:
        (self.folder / "journal").mkdir(parents=True)
        command = [sys.executable, "-m", "vllm.entrypoints.launchers.api_server.entry", *self.arguments]
        command += ["--port", str(self.port), "--disable-uvicorn-access-log", "--jit-monitor-verbose"]
        env = {name: value for name, value in os.environ.items() if not name.startswith("LORIKEET_")}
        env |= {
            "VLLM_CACHE_ROOT": str(self.cache or self.folder / "cache"),
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_USE_FLASHINFER_SAMPLER": "0",
            "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
            "HF_HUB_OFFLINE": "1",
            "PYTHONSAFEPATH": "1",  # our folder kernels/ must not be found under that name
        }
        if self.implementation.startswith("lorikeet"):
            command += ["--worker-cls", "lorikeet.kernels.vllm_worker.Worker"]
            if self.keyed:
                command += ["--additional-config", json.dumps({"lorikeet": fingerprint(self.kernels)})]
            env |= {"LORIKEET_KERNELS": self.kernels, "LORIKEET_DEBUG": "1"}
            env["LORIKEET_RUN_DIR"] = str(self.folder / "journal")
        self._begin = time.monotonic()
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, env=env | self.environment, stdout=log, stderr=log)

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def wait_until_ready(self, limit_s: float) -> None:
        """Raises RuntimeError, with the end of the log, when it ends or takes longer."""
        while self.ready_s is None:
            took_s = time.monotonic() - self._begin
            if self.process.poll() is not None or took_s > limit_s:
                tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-LOG_TAIL:])
                raise RuntimeError(f"{self.implementation} was not ready after {took_s:.0f} s:\n{tail}")
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=5):
                    self.ready_s = time.monotonic() - self._begin
            except (urllib.error.URLError, TimeoutError, ConnectionError):
                time.sleep(0.5)  # it does not listen before it is ready

    def log_lines(self, *words: str) -> list[str]:
        """The log's lines that hold one of the words, in lower case."""
        lines = self.log.read_text(errors="replace").splitlines()
        return [line for line in lines if any(word in line.lower() for word in words)]

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def tuned_environment(implementation: str, tuned: Path | None, folder: Path) -> dict[str, str]:
    """What makes a server use the measured block sizes in `tuned`, or none; `folder` is for a link to it."""
    if implementation == "lorikeet_default":
        return {"LORIKEET_TUNE": "ignore"}
    if implementation == "lorikeet" and tuned is not None:
        folder.mkdir(exist_ok=True)
        (folder / "tuned").symlink_to(tuned.resolve())  # as in the cache volume
        return {"LORIKEET_CACHE_DIR": str(folder)}
    if implementation == "vllm_tuned":
        (found,) = (tuned or PACKAGE_TUNED).glob("*/vllm")
        return {"VLLM_TUNED_CONFIG_FOLDER": str(found)}
    return {}


def server_arguments(
    model: Path,
    adapters: dict[str, Path],
    rank: int,
    max_loras: int,
    kv_bytes: int,
    memory_share: float,
    max_num_seqs: int = 256,
) -> list[str]:
    """Arguments that both implementations get. The fixed cache lets servers start side by side."""
    return [
        *("--model", str(model), "--served-model-name", "base"),
        *("--enable-lora", "--max-lora-rank", str(rank), "--max-loras", str(max_loras)),
        *("--max-cpu-loras", str(max(len(adapters), max_loras))),
        *("--lora-modules", *(f"{name}={path}" for name, path in adapters.items())),
        *("--max-model-len", "4096", "--max-num-batched-tokens", "8192", "--max-num-seqs", str(max_num_seqs)),
        *("--no-enable-prefix-caching", "--kv-cache-memory-bytes", str(kv_bytes)),
        *("--gpu-memory-utilization", str(memory_share)),
    ]
