"""Measure the rows of a file again and say how far they are from what it says."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lorikeet.kernels.tuned_file import KERNEL_VERSION, gpu_folder, read_measured
from lorikeet.kernels.tuner.cells import Cell
from lorikeet.kernels.tuner.measurer import MakeTools, Measurer
from lorikeet.kernels.tuner.run import device_of
from lorikeet.kernels.tuner.search import CellError

MAX_DRIFT = 0.10  # of one row; runs of the same thing on one GPU differ by 3%


@dataclass(frozen=True)
class Drift:
    """One row measured again."""

    cell: Cell
    file_us: float
    us: float
    default_us: float

    @property
    def ratio(self) -> float:
        return self.us / self.file_us

    @property
    def is_far(self) -> bool:
        """Whether the row's time has changed, or the default is faster by now."""
        return abs(self.ratio - 1) > MAX_DRIFT or self.us > self.default_us * 1.02


def measure_drift(
    make_tools: MakeTools,
    out: Path,
    cells: Sequence[Cell] | None = None,
    progress: Callable[[int, int, str], None] = lambda *_: None,
) -> tuple[list[Drift], list[str]]:
    """The rows of this GPU's files under `out`, or those of `cells`, and what could not be measured.

    Raises:
        TunedFileError: there are no files for this GPU, or not for kernel version KERNEL_VERSION.
    """
    found, problems = [], []
    with Measurer(make_tools) as measurer:
        device = device_of(measurer.header)
        _, rows = read_measured(out / gpu_folder(device.name))
        wanted = {Cell(shape, bucket): row for (shape, bucket), row in rows.items()}
        if cells is not None:
            wanted = {cell: wanted[cell] for cell in cells if cell in wanted}
        for number, (cell, row) in enumerate(wanted.items(), 1):
            try:
                outcome = measurer.measure(cell, pairs=[row.pair])
                us = dict(zip(outcome.best, outcome.best_us, strict=True)).get(row.pair)
            except CellError as exc:
                problems.append(str(exc))
                continue
            if us is None:
                problems.append(f"{cell}: its block sizes do not run any more: {outcome.failed}")
                continue
            found.append(Drift(cell, row.us, us, outcome.default_us))
            progress(number, len(wanted), f"{row.us:.1f} → {us:.1f} µs")
    return found, problems


def drift_lines(found: Sequence[Drift], problems: Sequence[str]) -> list[str]:
    """For people."""
    far = [row for row in found if row.is_far]
    lines = [f"{len(found)} rows measured again, kernel version {KERNEL_VERSION}"]
    if found:
        lines[0] += f", {statistics.geometric_mean(row.ratio for row in found):.3f} times as slow on average"
    lines += [
        f"{row.cell}: {row.file_us:.1f} µs in the file, {row.us:.1f} now, default {row.default_us:.1f}"
        for row in far
    ]
    return [*lines, *problems]
