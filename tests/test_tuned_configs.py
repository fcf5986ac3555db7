"""What the package brings: every file is good, complete and small."""

import datetime
import json
from pathlib import Path

import pytest

from lorikeet.kernels.config import Device
from lorikeet.kernels.tuned import load_folders
from lorikeet.kernels.tuned_file import gpu_folder, read_measured
from lorikeet.kernels.tuner.output import without_needless

ROOT = Path(__file__).parent.parent / "tuned_configs"
FOLDERS = sorted(path.parent for path in ROOT.glob("*/lora_shrink.json"))
MAX_BYTES = 2_000_000
SHARED_BYTES = {"9.0": 232_448, "10.0": 232_448, "8.0": 166_912, "8.9": 101_376}


def test_small() -> None:
    assert sum(path.stat().st_size for path in ROOT.rglob("*.json")) < MAX_BYTES


def test_nothing_else_lies_there() -> None:
    known = {"lora_shrink.json", "lora_expand.json", "measured.jsonl", "measured-vllm.jsonl"}
    for path in ROOT.rglob("*.json*"):
        assert path.name in known or path.parent.name == "vllm", path


def test_every_file_of_vllms_has_its_provenance() -> None:
    for folder in {path.parent for path in ROOT.rglob("vllm/*.json")}:
        provenance = json.loads((folder / "provenance.json").read_text())
        assert all(provenance[name] for name in ("gpu", "driver", "torch", "triton", "measured"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_folder(folder: Path) -> None:
    header, rows = read_measured(folder)
    assert folder.name == gpu_folder(header["gpu"])
    assert all(header.values())
    assert "unknown" not in header.values()
    datetime.date.fromisoformat(header["measured"])
    assert rows
    for row in rows.values():
        assert row.us <= row.default_us


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_row_is_needed(folder: Path) -> None:
    header, rows = read_measured(folder)
    major, minor = map(int, header["capability"].split("."))
    device = Device((major, minor), SHARED_BYTES[header["capability"]], header["gpu"])
    others = load_folders(device, [ROOT]).others
    assert without_needless(rows, device, others) == rows
