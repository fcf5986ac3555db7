"""The CPU image started as a user starts it: through compose, and locked down."""

import json
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import openai
import pytest
from docker_cli import ROOT, docker, succeeds

pytestmark = [pytest.mark.docker, pytest.mark.timeout(1800)]

READY_S = 400
PORT = 18000
PROJECT = "lorikeet-test"
MODEL = "smollm2-135m"
LOCKED = (
    *("--network", "none", "--read-only", "--cap-drop", "ALL", "--tmpfs", "/tmp:exec"),
    *("--shm-size", "1g", "--user", "12345"),
)


class Compose:
    """The `cpu` service of compose.yaml, without Prometheus and Grafana, whose images may not be here."""

    def __init__(self, folder: Path) -> None:
        variables = {"LISTEN": f"127.0.0.1:{PORT}", "ADAPTERS": folder, "MODELS": folder, "SHM_SIZE": "1gb"}
        folder.chmod(0o755)  # the container's user reads it
        (folder / "env").write_text("".join(f"{name}={value}\n" for name, value in variables.items()))
        self._options = ("-p", PROJECT, "--env-file", str(folder / "env"), "-f", str(ROOT / "compose.yaml"))

    def run(self, *arguments: str) -> str:
        plugin = succeeds("docker", "compose", "version")
        command = (*(["docker", "compose"] if plugin else ["docker-compose"]), *self._options, *arguments)
        ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
        assert ended.returncode == 0, ended.stderr[-2000:]
        return ended.stdout

    def start(self) -> float:
        """Seconds from `up` to ready."""
        begin = time.monotonic()
        self.run("up", "--detach", "--no-deps", "--no-build", "cpu")
        while not self._ready():
            assert time.monotonic() < begin + READY_S, docker("logs", "--tail", "30", self.container)
            time.sleep(0.5)
        return time.monotonic() - begin

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/readyz", timeout=2):
                return True
        except OSError:
            return False

    @property
    def container(self) -> str:
        return self.run("ps", "--quiet", "cpu").strip()


@pytest.fixture(scope="module")
def compose(cpu_image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compose]:
    compose = Compose(tmp_path_factory.mktemp("compose"))
    compose.run("down", "--volumes")
    yield compose
    compose.run("down", "--volumes")


def test_serves_drains_and_starts_faster_again(compose: Compose) -> None:
    first_s = compose.start()
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{PORT}/v1", api_key="none", max_retries=0)
    question = [{"role": "user", "content": "What is the capital of France?"}]
    answer = client.chat.completions.create(model=MODEL, messages=question, max_tokens=20, temperature=0)
    assert "Paris" in answer.choices[0].message.content

    options = {"max_tokens": 150, "temperature": 0, "extra_body": {"ignore_eos": True}}
    stream = client.chat.completions.create(model="pirate", messages=question, stream=True, **options)
    chunks = [next(stream), next(stream)]
    container = compose.container
    with ThreadPoolExecutor(1) as pool:
        stopped = pool.submit(compose.run, "stop", "cpu")
        chunks += list(stream)
        stopped.result()
    assert chunks[-1].choices[0].finish_reason == "length"
    assert docker("inspect", "--format", "{{.State.ExitCode}}", container) == "0"

    again_s = compose.start()
    print(f"ready after {first_s:.1f} s, and {again_s:.1f} s from the cache volume")
    assert again_s < first_s
    assert docker("exec", container, "id", "-u") == "2000"


@pytest.fixture
def volume() -> Iterator[str]:
    name = f"{PROJECT}-locked"
    docker("volume", "rm", "--force", name)
    docker("volume", "create", name)
    yield name
    docker("volume", "rm", "--force", name)


def test_locked_down_and_with_a_damaged_cache(cpu_image: str, volume: str) -> None:
    """No network, no capability, only the cache and /tmp writable, a user that the image doesn't know."""
    serve_once(cpu_image, volume)
    assert truncate_every_fifth_file(cpu_image, volume) > 0
    serve_once(cpu_image, volume)


def serve_once(image: str, volume: str) -> None:
    container = docker("run", "--detach", *LOCKED, "--volume", f"{volume}:/cache", image)
    try:
        wait_until_healthy(container)
        body = {"model": "json", "prompt": "Name a colour.", "max_tokens": 8}
        code = (
            "import sys, urllib.request as u; r = u.Request('http://127.0.0.1:8000/v1/completions', "
            "sys.argv[1].encode(), {'Content-Type': 'application/json'}); print(u.urlopen(r).read().decode())"
        )
        answer = json.loads(docker("exec", container, "python3", "-c", code, json.dumps(body)))
        assert answer["usage"]["completion_tokens"] > 0
        docker("stop", "--time", "60", container)
        assert docker("inspect", "--format", "{{.State.ExitCode}}", container) == "0"
    finally:
        docker("rm", "--force", container)


def wait_until_healthy(container: str) -> None:
    """Until it is ready. The image's own check only asks whether the process is alive."""
    code = "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/readyz', timeout=3)"
    end = time.monotonic() + READY_S
    while not succeeds("docker", "exec", container, "python3", "-c", code):
        state = docker("inspect", "--format", "{{.State.Status}}", container)
        assert state == "running", docker("logs", "--tail", "30", container)
        assert time.monotonic() < end, docker("logs", "--tail", "30", container)
        time.sleep(1)
    assert docker("inspect", "--format", "{{.State.Health.Status}}", container) == "healthy"


def truncate_every_fifth_file(image: str, volume: str) -> int:
    code = """if True:
        import os, pathlib
        sizes = {path: path.stat().st_size for path in pathlib.Path("/cache").rglob("*") if path.is_file()}
        chosen = sorted(path for path in sizes if sizes[path])[::5]
        for path in chosen:
            os.truncate(path, sizes[path] // 2)
        print(len(chosen))
    """
    mount = f"{volume}:/cache"
    return int(
        docker("run", "--rm", "--user", "0", "--volume", mount, "--entrypoint", "python3", image, "-c", code)
    )


def test_says_what_must_be_writable(cpu_image: str) -> None:
    container = docker("run", "--detach", "--read-only", "--tmpfs", "/tmp", cpu_image)
    try:
        assert docker("wait", container) == "1"
        lines = docker("logs", container).splitlines()
        assert "LORIKEET_CACHE_DIR=/cache: user 2000 of group 0 can't write there" in lines[-1]
        assert not any("Traceback" in line for line in lines)
    finally:
        docker("rm", "--force", container)


def test_says_that_shared_memory_is_missing(cpu_image: str, volume: str) -> None:
    """What ends a process of the engine is the last line, not that some process has ended."""
    container = docker("run", "--detach", "--shm-size", "32m", "--volume", f"{volume}:/cache", cpu_image)
    try:
        assert docker("wait", container, timeout=READY_S) == "1"
        assert "--shm-size" in docker("logs", container).splitlines()[-1]
    finally:
        docker("rm", "--force", container)


def test_image_has_no_secrets_and_no_build_tools(cpu_image: str) -> None:
    history = docker("history", "--no-trunc", "--format", "{{.CreatedBy}}", cpu_image)
    environment = docker("inspect", "--format", "{{json .Config.Env}}", cpu_image)
    for text in (history, environment):
        assert not any(word in text.lower() for word in ("token", "password", "secret", "index-url"))
    script = "for tool in gcc cc make git uv; do command -v $tool && exit 1; done; exit 0"
    docker("run", "--rm", "--entrypoint", "sh", cpu_image, "-c", script)


def test_image_metadata(cpu_image: str) -> None:
    config = json.loads(docker("inspect", "--format", "{{json .Config}}", cpu_image))
    assert config["Entrypoint"] == ["tini", "--", "lorikeet"]
    assert config["StopSignal"] == "SIGTERM"
    assert config["User"] == "2000:0"
    assert "/livez" in config["Healthcheck"]["Test"][-1]
    assert config["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"
    size = int(docker("inspect", "--format", "{{.Size}}", cpu_image))
    print(f"{cpu_image}: {size / 1e9:.2f} GB")
