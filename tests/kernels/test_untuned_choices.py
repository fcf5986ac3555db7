"""Totals of untuned choices on their way from the workers to the server."""

import logging
from pathlib import Path

import pytest

from lorikeet.kernels.choice_recorder import ChoiceRecorder
from lorikeet.kernels.untuned_choices import UntunedWatch, read_totals


@pytest.fixture
def recorder() -> ChoiceRecorder:
    recorder = ChoiceRecorder()
    recorder.serve()
    return recorder


def test_totals_of_all_ranks_are_added(recorder: ChoiceRecorder, tmp_path: Path) -> None:
    recorder.periods["serving"].untuned["fp4_gemm"] = 3
    for rank in (0, 1):
        UntunedWatch(tmp_path, rank, recorder).look()
    assert read_totals(tmp_path) == {"fp4_gemm": 6}


def test_a_file_holds_the_latest_totals_and_no_more(recorder: ChoiceRecorder, tmp_path: Path) -> None:
    watch = UntunedWatch(tmp_path, 0, recorder)
    for total in range(1, 1000):
        recorder.periods["serving"].untuned["fp4_gemm"] = total
        watch.look()
    assert read_totals(tmp_path) == {"fp4_gemm": 999}
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 100


def test_names_that_nobody_knows_are_one(recorder: ChoiceRecorder, tmp_path: Path) -> None:
    for number in range(1000):
        recorder.periods["serving"].untuned[f"new_{number}"] = 1
    UntunedWatch(tmp_path, 0, recorder).look()
    assert read_totals(tmp_path) == {"unknown": 1000}


def test_each_operator_is_new_once(
    recorder: ChoiceRecorder, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[list[str]] = []
    watch = UntunedWatch(tmp_path, 0, recorder, seen.append)
    untuned = recorder.periods["serving"].untuned
    with caplog.at_level(logging.WARNING):
        for operator in ("fp4_gemm", "fp4_gemm", "fp8_gemm"):
            untuned[operator] = untuned.get(operator, 0) + 1
            watch.look()
    assert seen == [["fp4_gemm"], ["fp8_gemm"]]
    assert len(caplog.records) == 2


def test_nothing_is_written_where_nothing_is_untuned(recorder: ChoiceRecorder, tmp_path: Path) -> None:
    UntunedWatch(tmp_path, 0, recorder).look()
    assert list(tmp_path.iterdir()) == []
    assert read_totals(tmp_path) == {}


def test_counts_before_serving_are_left_out(tmp_path: Path) -> None:
    recorder = ChoiceRecorder()
    recorder.periods["start"].untuned["fp4_gemm"] = 5
    UntunedWatch(tmp_path, 0, recorder).look()
    assert read_totals(tmp_path) == {}
