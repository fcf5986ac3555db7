"""Compiling ahead in processes: each variant once, and what fails, hangs or crashes is named."""

import time
from pathlib import Path

import pytest
from staged_tuning import staged_compile

from lorikeet.kernels.tuner.precompile import Precompiler, Task


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def task(what: str, folder: Path, variant: str = "") -> Task:
    return Task(variant or what, (what, folder))


def test_each_variant_once_and_failures_by_task(folder: Path) -> None:
    compiler = Precompiler(staged_compile, 2, timeout_s=60)
    tasks = [task("good", folder), task("fail", folder), task("other", folder, variant="good")]
    compiler.submit(tasks)
    compiler.submit(tasks)
    assert compiler.failed(tasks) == [tasks[1]]
    assert sorted(path.name.split("-")[0] for path in folder.iterdir()) == ["fail", "good"]
    compiler.close()


def test_what_hangs_is_left_out_when_its_time_is_over(folder: Path) -> None:
    compiler = Precompiler(staged_compile, 2, timeout_s=30)
    compiler.submit([task("good", folder)])
    assert compiler.failed([task("good", folder)]) == []
    compiler.timeout_s = 0.5
    compiler.submit([task("hang", folder)])
    begin = time.monotonic()
    assert compiler.failed([task("good", folder), task("hang", folder)]) == [task("hang", folder)]
    assert time.monotonic() - begin < 5
    compiler.close()


def test_a_compiler_that_crashes_costs_what_was_running_with_it(folder: Path) -> None:
    compiler = Precompiler(staged_compile, 1, timeout_s=60)
    compiler.submit([task("crash", folder)])
    assert compiler.failed([task("crash", folder)]) == [task("crash", folder)]
    compiler.submit([task("good", folder)])
    assert compiler.failed([task("good", folder)]) == []
    compiler.close()


def test_closing_ends_the_processes(folder: Path) -> None:
    compiler = Precompiler(staged_compile, 1, timeout_s=60)
    compiler.submit([task("hang", folder)])
    while not list(folder.iterdir()):
        time.sleep(0.02)
    pid = int(next(folder.iterdir()).name.split("-")[1])
    compiler.close()
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)
