"""Measure cells one after the other until all are done or the time is over, and keep what was found."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lorikeet.kernels.tuner.cells import Cell
from lorikeet.kernels.tuner.measurer import Measurer
from lorikeet.kernels.tuner.precompile import Precompiler, Task
from lorikeet.kernels.tuner.results import Results
from lorikeet.kernels.tuner.search import AnyPair, CellError, Space

NUM_AHEAD = 8  # cells that are compiled while one is measured

# Tasks of a cell, or of some pairs of it, with the parts of pairs that need each: (first,) or the pair.
TasksOf = Callable[[Cell, Sequence[AnyPair] | None], dict[Task, list[tuple[Any, ...]]]]


@dataclass
class Tuning:
    """One run over cells."""

    cells: Sequence[Cell]
    space: Space
    tasks_of: TasksOf
    measurer: Measurer
    precompiler: Precompiler
    results: Results
    deadline: float = float("inf")  # on the monotonic clock; no cell is begun after it
    progress: Callable[[str], None] = lambda _: None  # called after each cell with what to show
    skipped: dict[Cell, str] = field(default_factory=dict)  # cells that cannot be measured, and why

    def __post_init__(self) -> None:
        self._tasks: dict[Cell, dict[Task, list[tuple[Any, ...]]]] = {}  # being compiled
        self._first: dict[tuple[Any, ...], Cell] = {}
        for cell in self.cells:
            self._first.setdefault(_without_slots(cell), cell)

    def run(self) -> bool:
        """True when every cell was measured or skipped, False when the time was over before."""
        todo = [cell for cell in self.cells if cell not in self.results.outcomes]
        for position, cell in enumerate(todo):
            if time.monotonic() >= self.deadline:
                return False
            for coming in todo[position : position + NUM_AHEAD]:
                self._compile(coming)
            self._measure(cell)
        return True

    def _measure(self, cell: Cell) -> None:
        pairs = self._pairs(cell)
        tasks = self._tasks.pop(cell)
        failed = self.precompiler.failed(tasks)
        excluded = [part for task in failed for part in tasks[task]]
        try:
            outcome = self.measurer.measure(cell, pairs, excluded)
        except CellError as exc:
            self.skipped[cell] = str(exc)
            self.progress(f"skipped: {exc}")
            return
        if failed:
            outcome.failed["does not compile"] = len(failed)
        self.results.add(cell, outcome)
        self.progress(f"{outcome.default_us:.1f} → {outcome.us:.1f} µs")

    def _compile(self, cell: Cell) -> None:
        """Start compiling what this cell needs, once."""
        if cell not in self._tasks:
            self._tasks[cell] = self.tasks_of(cell, self._pairs(cell))
            self.precompiler.submit(self._tasks[cell])

    def _pairs(self, cell: Cell) -> list[AnyPair] | None:
        """The best of the first cell that differs only in its slots; None for that one: all candidates."""
        first = self._first[_without_slots(cell)]
        known = self.results.outcomes.get(first)
        if first == cell or first in self.skipped:
            return None
        return [*(known.best if known else ()), self.space.default(cell)]


def _without_slots(cell: Cell) -> tuple[Any, ...]:
    return cell.shape.k, cell.shape.n, cell.shape.rank, cell.shape.dtype, cell.bucket
