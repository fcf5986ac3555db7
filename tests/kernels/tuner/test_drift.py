"""Measuring a file's rows again, with a staged bench."""

from pathlib import Path

import pytest
from staged_tuning import CELL, OTHER, MakeTools, nth
from tuned_samples import HEADER

from lorikeet.kernels.tuned_file import Measured, TunedFileError, write_folder
from lorikeet.kernels.tuner.drift import drift_lines, measure_drift


def write(out: Path, us: float) -> None:
    header = {"gpu": "NVIDIA H200", "capability": "9.0", **HEADER}
    write_folder(out / "NVIDIA_H200", header, {(CELL.shape, CELL.bucket): Measured(nth(1), us, 10.0)})


@pytest.mark.parametrize(("file_us", "is_far"), [(5.2, False), (4.0, True), (7.0, True)])
def test_rows_that_have_changed_are_named(file_us: float, is_far: bool, tmp_path: Path) -> None:
    write(tmp_path, file_us)
    found, problems = measure_drift(MakeTools(nth(1)), tmp_path)
    assert problems == []
    assert [(row.cell, row.file_us, row.us, row.default_us) for row in found] == [(CELL, file_us, 5.0, 10.0)]
    assert found[0].is_far is is_far
    assert (str(CELL) in "\n".join(drift_lines(found, problems))) is is_far


def test_a_row_that_is_slower_than_the_default_by_now_is_far(tmp_path: Path) -> None:
    write(tmp_path, 10.0)
    found, _ = measure_drift(MakeTools((nth(0)[0], nth(0)[1])), tmp_path)
    assert found[0].is_far


def test_only_the_cells_asked_for(tmp_path: Path) -> None:
    write(tmp_path, 5.0)
    assert measure_drift(MakeTools(nth(1)), tmp_path, [OTHER]) == ([], [])


def test_no_files_for_this_gpu(tmp_path: Path) -> None:
    with pytest.raises(TunedFileError, match=r"lora_shrink\.json: cannot be read"):
        measure_drift(MakeTools(nth(1)), tmp_path)
