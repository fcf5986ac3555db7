"""A whole run: real processes, real kernels in the interpreter, a made-up clock, real files."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from interpreted_tuning import TINY_GPU, interpreted_tools, nothing_to_compile

from lorikeet.kernels.shape import LayerShape
from lorikeet.kernels.tuned import load_folders
from lorikeet.kernels.tuned_file import read_measured
from lorikeet.kernels.tuner.cells import Cell, cells_of
from lorikeet.kernels.tuner.run import LORA, Report, run

pytestmark = pytest.mark.slow

CELLS = cells_of([(96, (32, 16))], [8], [2, 3], buckets=(4, 16), dtype="float16")
INTERPRETED = replace(LORA, make_tools=interpreted_tools, compile=nothing_to_compile)


def tune(out: Path, cells: list[Cell] = CELLS, **arguments) -> Report:
    return run(INTERPRETED, cells, out, workers=1, **arguments)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Report]:
    out = tmp_path_factory.mktemp("tuned")
    return out, tune(out)


def test_what_wins_is_found_by_serving(tuned: tuple[Path, Report]) -> None:
    out, report = tuned
    assert report.done
    assert set(report.outcomes) == set(CELLS), report.lines()
    assert not report.skipped
    configs = load_folders(TINY_GPU, [out])
    for cell, outcome in report.outcomes.items():
        assert configs.find(cell.shape, cell.bucket, TINY_GPU)[0] == outcome.pair
        assert outcome.pair[1].block_n == 64  # what the made-up clock likes
        assert outcome.us < outcome.default_us


def test_files_say_where_they_were_measured(tuned: tuple[Path, Report]) -> None:
    out, _ = tuned
    header, rows = read_measured(out / "NVIDIA_Made_Up")
    assert header["gpu"] == "NVIDIA Made Up"
    assert all(header.values())
    assert all(row.us > 0 for row in rows.values())


def test_nothing_is_measured_twice(tuned: tuple[Path, Report]) -> None:
    out, before = tuned
    journal = out / "NVIDIA_Made_Up" / "measured.jsonl"
    text = journal.read_text()
    again = tune(out)
    assert journal.read_text() == text
    assert again.outcomes == before.outcomes


def test_the_time_is_kept(tmp_path: Path) -> None:
    report = tune(tmp_path, seconds=0)
    assert not report.done
    assert not report.outcomes
    assert "goes on where this one ended" in "\n".join(report.lines())
    assert read_measured(tmp_path / "NVIDIA_Made_Up")[1] == {}


SCRIPT = """
import sys
from pathlib import Path
sys.path[:0] = {path!r}
from test_run_cells import CELLS, INTERPRETED
from lorikeet.kernels.tuner.run import run
if __name__ == "__main__":
    report = run(INTERPRETED, CELLS, Path({out!r}), workers=1)
    print("\\n".join(report.lines()))
"""


def start(out: Path, folder: Path) -> "subprocess.Popen[str]":
    """A run in a process of its own, to be killed."""
    helpers = str(Path(__file__).parents[2] / "helpers")
    (folder / "test_run_cells.py").write_text(Path(__file__).read_text())
    script = folder / "script.py"
    script.write_text(SCRIPT.format(path=[str(folder), helpers], out=str(out)))
    return subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "PYTHONSAFEPATH": "1"},
    )  # fmt: skip


def wait_for_lines(journal: Path, count: int) -> None:
    deadline = time.monotonic() + 120
    while not journal.exists() or journal.read_text().count("\n") < count:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_what_was_measured_survives(how: signal.Signals, tmp_path: Path) -> None:
    out = tmp_path / "out"
    journal = out / "NVIDIA_Made_Up" / "measured.jsonl"
    process = start(out, tmp_path)
    wait_for_lines(journal, 2)
    process.send_signal(how)
    output, _ = process.communicate(timeout=60)
    measured = journal.read_text().splitlines()
    assert 2 <= len(measured) < 1 + len(CELLS), output
    if how == signal.SIGINT:
        assert process.returncode == 0, output
        assert "goes on where this one ended" in output
        assert read_measured(journal.parent)[1]
    with journal.open("a") as file:
        file.write('{"shape": {"k": 25')  # the kill can fall into a line
    report = tune(out)
    assert report.done
    assert set(report.outcomes) == set(CELLS), report.lines()
    lines = journal.read_text().splitlines()
    assert lines[: len(measured)] == measured
    assert all(json.loads(line) for line in lines)


def test_results_of_other_versions_are_not_taken_over(tmp_path: Path) -> None:
    journal = tmp_path / "NVIDIA_Made_Up" / "measured.jsonl"
    journal.parent.mkdir()
    journal.write_text('{"gpu": "NVIDIA Made Up", "kernel": "0"}\n{"shape": {}}\n')
    assert tune(tmp_path, CELLS[:1]).done
    assert (
        journal.with_suffix(".old.jsonl").read_text().startswith('{"gpu": "NVIDIA Made Up", "kernel": "0"}')
    )


def test_other_shapes_of_the_folder_stay(tmp_path: Path) -> None:
    tune(tmp_path, CELLS[:1])
    (tmp_path / "NVIDIA_Made_Up" / "measured.jsonl").unlink()
    other = Cell(LayerShape(64, (16,), 8, 2, "float16"), 4)
    tune(tmp_path, [other])
    shapes = {shape for shape, _ in read_measured(tmp_path / "NVIDIA_Made_Up")[1]}
    assert shapes == {CELLS[0].shape, other.shape}
