"""Runs docker for the tests of the images."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def docker(*arguments: str, timeout: float = 120) -> str:
    """What a docker command prints; RuntimeError with the end of it when it fails."""
    command = ("docker", *arguments)
    ended = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=timeout, env=builder(), cwd=ROOT
    )
    if ended.returncode:
        raise RuntimeError(f"{' '.join(command)}: {(ended.stderr or ended.stdout)[-2000:]}")
    return (ended.stdout + ended.stderr).strip()


def builder() -> dict[str, str]:
    """The environment for builds: without the buildx plugin only the engine's own builder is there."""
    return dict(os.environ) | ({} if succeeds("docker", "buildx", "version") else {"DOCKER_BUILDKIT": "0"})


def succeeds(*command: str) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0
