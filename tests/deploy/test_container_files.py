"""The files that images and clusters are made from, checked without running them."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
COMPOSE = (ROOT / "compose.yaml").read_text()
KUBERNETES = sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))


def run(*command: str | Path) -> None:
    ended = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_dockerfile() -> None:
    run(BIN / "hadolint", "Dockerfile")


def test_shell_scripts() -> None:
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    scripts = [path for path in listed.split() if is_shell(ROOT / path)]
    assert ".ci/run" in scripts
    run(BIN / "shellcheck", *scripts)


def is_shell(path: Path) -> bool:
    with path.open("rb") as file:
        return re.match(rb"#!.*\bb?a?sh$", file.readline().strip()) is not None


def test_compose_grammar() -> None:
    run(BIN / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", "compose.yaml")


@pytest.mark.skipif(shutil.which("docker-compose") is None, reason="docker-compose 1.29 is not installed")
def test_compose_grammar_of_the_first_compose() -> None:
    run("docker-compose", "config", "--quiet")


def test_env_example_has_every_setting_with_its_default() -> None:
    in_compose = dict(re.findall(r"\$\{(\w+):-([^}]*)\}", COMPOSE))
    in_example = dict(re.findall(r"^(\w+)=(.*)$", (ROOT / ".env.example").read_text(), re.MULTILINE))
    assert in_example == in_compose
    assert not re.search(r"\$\{\w+\}|\$\w", COMPOSE), "a setting without a default"


def test_compose_outlives_the_drain() -> None:
    service = yaml.safe_load(COMPOSE)["services"]["lorikeet"]
    drain_s = float(service["environment"]["LORIKEET_DRAIN_S"].rpartition(":-")[2].rstrip("}"))
    assert int(service["stop_grace_period"].rstrip("s")) >= drain_s + 15


def test_images_are_pinned() -> None:
    images = re.findall(r"^ +image: (\S+)$", COMPOSE, re.MULTILINE)
    assert len(images) == 4
    for image in images:
        assert re.search(r":v?\d+\.\d+\.\d+", image), image


def test_everything_listens_on_loopback() -> None:
    ports = re.findall(r'ports: \["(.*)"\]', COMPOSE)
    assert ports
    assert all(re.fullmatch(r"\$\{\w+:-127\.0\.0\.1:\d+\}:\d+", port) for port in ports)


@pytest.mark.parametrize("path", KUBERNETES, ids=lambda path: path.name)
def test_kubernetes_manifests(path: Path) -> None:
    """The pod monitor is no part of Kubernetes: its schema is the operator's own."""
    if path.name == "podmonitor.yaml":
        monitor = yaml.safe_load(path.read_text())
        assert monitor["kind"] == "PodMonitor"
        return
    run(BIN / "kubernetes-validate", "--strict", path)


def test_probes_and_ports_agree() -> None:
    deployment = next(
        document
        for document in yaml.safe_load_all((ROOT / "deploy/kubernetes/lorikeet.yaml").read_text())
        if document["kind"] == "Deployment"
    )
    monitor = yaml.safe_load((ROOT / "deploy/kubernetes/podmonitor.yaml").read_text())
    pod = deployment["spec"]["template"]
    container = pod["spec"]["containers"][0]
    paths = {
        kind: container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "readiness", "liveness")
    }
    assert paths == {"startup": "/readyz", "readiness": "/readyz", "liveness": "/livez"}
    assert monitor["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert monitor["spec"]["podMetricsEndpoints"][0]["port"] == container["ports"][0]["name"]
    pre_stop_s = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    drain_s = next(float(env["value"]) for env in container["env"] if env["name"] == "LORIKEET_DRAIN_S")
    assert pod["spec"]["terminationGracePeriodSeconds"] > pre_stop_s + drain_s
