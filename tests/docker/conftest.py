"""A Docker engine, and the CPU image built on it. Where no base image can be pulled, a stand-in is made."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator

import pytest
from docker_cli import ROOT, docker

BASE = "python:3.11-slim-bookworm"
CPU_IMAGE = "lorikeet:0.1.0-cpu"  # as compose.yaml names it
START_LIMIT_S = 20
BUILD_LIMIT_S = 1200
PULL_LIMIT_S = 120


def engine_answers() -> bool:
    return subprocess.run(["docker", "info"], check=False, capture_output=True).returncode == 0


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A running engine: the machine's, or one that is started here, as root."""
    if shutil.which("docker") is None:
        pytest.skip("docker is not installed")
    if engine_answers():
        yield
        return
    if os.getuid() or shutil.which("dockerd") is None:
        pytest.skip("no Docker engine answers, and none can be started without root and dockerd")
    log = tmp_path_factory.mktemp("dockerd") / "log"
    with log.open("w") as file:
        process = subprocess.Popen(["dockerd"], stdout=file, stderr=file)
    end = time.monotonic() + START_LIMIT_S
    while not engine_answers():
        if process.poll() is not None or time.monotonic() > end:
            process.kill()
            pytest.skip(f"no Docker engine can start here: {log.read_text()[-300:]}")
        time.sleep(0.5)
    yield
    process.terminate()
    process.wait(60)


@pytest.fixture(scope="session")
def cpu_image(engine: None) -> str:
    """The image of `docker build --target cpu`."""
    if not docker("images", "--quiet", BASE) and not pull(BASE):
        subprocess.run([ROOT / "tests" / "docker" / "stand-in-base", BASE], check=True, timeout=600)
    build = ("build", "--network", "host", "--target", "cpu", "--tag", CPU_IMAGE, ".")
    docker(*build, timeout=BUILD_LIMIT_S)
    return CPU_IMAGE


def pull(image: str) -> bool:
    try:
        docker("pull", "--quiet", image, timeout=PULL_LIMIT_S)
    except (RuntimeError, subprocess.TimeoutExpired):
        return False
    return True
