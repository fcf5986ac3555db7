"""A real Prometheus that runs the stack's own configuration against a server of the test's."""

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from live_server import free_port
from programs import PROMETHEUS
from stack_files import DEPLOY

START_S = 60
Series = dict[str, Any]  # Prometheus' own: "metric" and "value" or "values"


@dataclass
class RunningPrometheus:
    """Its process and port, and when it began."""

    process: subprocess.Popen[bytes]
    port: int
    began: float

    def query(self, expr: str) -> list[Series]:
        """The series of `expr` now, those that are no number left out."""
        found = self._get("query", query=expr)["result"]
        return [series for series in found if series["value"][1] != "NaN"]

    def query_range(self, expr: str, step: str = "2s") -> list[Series]:
        """The series of `expr` since the beginning, moments without a number left out."""
        found = self._get("query_range", query=expr, start=self.began, end=time.time(), step=step)["result"]
        for series in found:
            series["values"] = [value for value in series["values"] if value[1] != "NaN"]
        return [series for series in found if series["values"]]

    def wait_for(self, expr: str, timeout_s: float = 30) -> None:
        """Wait until `expr` has a series."""
        end = time.monotonic() + timeout_s
        while not self.query(expr):
            assert time.monotonic() < end, f"no series after {timeout_s} s: {expr}"
            time.sleep(0.2)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)

    def _get(self, path: str, **parameters: object) -> Any:
        answer = httpx.get(
            f"http://127.0.0.1:{self.port}/api/v1/{path}", params=parameters, timeout=30, trust_env=False
        )
        document = answer.json()
        assert document["status"] == "success", document
        return document["data"]


def start(folder: Path, target: str) -> RunningPrometheus:
    """Start it with the stack's configuration, `target` in place of the stack's server."""
    configuration = (DEPLOY / "prometheus" / "prometheus.yml").read_text(encoding="utf-8")
    assert "lorikeet:8000" in configuration
    (folder / "prometheus.yml").write_text(configuration.replace("lorikeet:8000", target), encoding="utf-8")
    (folder / "rules").symlink_to(DEPLOY / "prometheus" / "rules")
    port = free_port()
    assert PROMETHEUS
    options = [f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address=127.0.0.1:{port}"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [PROMETHEUS, "--config.file=prometheus.yml", *options], cwd=folder, stdout=log, stderr=log
        )
    running = RunningPrometheus(process, port, time.time())
    _wait_until_ready(running, folder / "log")
    return running


def _wait_until_ready(running: RunningPrometheus, log: Path) -> None:
    end = time.monotonic() + START_S
    while True:
        assert running.process.poll() is None, log.read_text()[-2000:]
        assert time.monotonic() < end, log.read_text()[-2000:]
        try:
            answer = httpx.get(f"http://127.0.0.1:{running.port}/-/ready", timeout=5, trust_env=False)
        except httpx.TransportError:
            time.sleep(0.2)
            continue
        if answer.status_code == 200:
            return
        time.sleep(0.2)
