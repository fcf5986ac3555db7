"""Find the fastest block sizes of one cell: shrink first, then expand, timed together.

The two kernels of a layer are one measurement, since the number of chunks that shrink leaves decides what
expand reads. All candidates take turns, so that a drift of the clock hits all alike, and the slower half is
left out after each round. The winner is compared with the reference before it may win.
"""

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from lorikeet.kernels.tuner.cells import Cell

AnyPair = tuple[Any, Any]  # configurations of the first and the second kernel
Timer = Callable[[], float]  # µs of one run of the cell

ROUNDS = (1, 2, 4)  # turns of each candidate before the slower half goes
FINAL_TURNS = 9
FINALISTS = 4
NUM_FIRSTS = 3  # first kernels that the second one's candidates are tried with
# A winner must be faster than the default by more than two runs of the same thing differ.
MIN_GAIN = 0.02
MAX_ERROR = 0.02  # relative, of what is added to y: bf16's own rounding is 0.004
NUM_BEST = 8  # pairs that are tried again for a cell like this one


class Space(Protocol):
    def default(self, cell: Cell) -> AnyPair: ...

    def firsts(self, cell: Cell) -> list[Any]: ...

    def seconds(self, cell: Cell, first: Any) -> list[Any]: ...

    def second(self, cell: Cell, first: Any) -> Any: ...


class Bench(Protocol):
    def prepare(self, cell: Cell, pair: AnyPair) -> Timer:
        """Run the pair once and return its timer; raises CandidateError where it cannot run."""

    def error(self, cell: Cell, pair: AnyPair) -> float:
        """Relative error of the pair against the reference; NaN is wrong too."""


class CandidateError(RuntimeError):
    """A candidate does not compile, or asks for more than the GPU has."""


class CellError(RuntimeError):
    """A cell cannot be measured: the default itself fails."""


@dataclass
class Outcome:
    """What was found for a cell."""

    pair: AnyPair
    us: float
    default: AnyPair
    default_us: float
    best: list[AnyPair] = field(default_factory=list)  # the finalists, fastest first
    best_us: list[float] = field(default_factory=list)
    failed: dict[str, int] = field(default_factory=dict)  # reason → candidates


def search(
    cell: Cell,
    space: Space,
    bench: Bench,
    pairs: Sequence[AnyPair] | None = None,
    excluded: Iterable[tuple[Any, ...]] = (),
    trying: Callable[[AnyPair], None] = lambda _: None,
) -> Outcome:
    """The fastest correct pair of the cell, or of `pairs` where given; the default where none is faster.

    `excluded` are pairs, or first kernels alone as (first,), that must not run. `trying` is told of each pair
    before it runs for the first time.

    Raises:
        CellError: the default pair does not run, or is wrong.
    """
    default = space.default(cell)
    race = _Race(cell, bench, default, frozenset(excluded), trying)
    if pairs is not None:
        times = race.run([default, *pairs])
    else:
        firsts = race.run([default, *((first, space.second(cell, first)) for first in space.firsts(cell))])
        kept = list(dict.fromkeys(first for first, _ in sorted(firsts, key=lambda pair: firsts[pair])))
        times = race.run(
            [
                default,
                *((first, second) for first in kept[:NUM_FIRSTS] for second in space.seconds(cell, first)),
            ]
        )
    ranked = sorted(times, key=lambda pair: times[pair])
    winner = race.first_correct([pair for pair in ranked if times[pair] <= times[default] * (1 - MIN_GAIN)])
    best = ranked[:NUM_BEST]
    best_us = [times[pair] for pair in best]
    return Outcome(winner, times[winner], default, times[default], best, best_us, race.failed)


class _Race:
    """Candidates of one cell taking turns."""

    def __init__(
        self,
        cell: Cell,
        bench: Bench,
        default: AnyPair,
        excluded: frozenset[tuple[Any, ...]],
        trying: Callable[[AnyPair], None],
    ) -> None:
        self.failed: dict[str, int] = {}
        self._cell, self._bench, self._default = cell, bench, default
        self._excluded, self._trying = excluded, trying
        self._timers: dict[AnyPair, Timer] = {}

    def run(self, pairs: Iterable[AnyPair]) -> dict[AnyPair, float]:
        """Median µs of those that stayed to the end; the default always does."""
        alive = [pair for pair in dict.fromkeys(pairs) if self._prepared(pair)]
        samples: dict[AnyPair, list[float]] = {pair: [] for pair in alive}
        for turns in ROUNDS:
            if len(alive) <= FINALISTS + 1:
                break
            self._take_turns(alive, samples, turns)
            alive.sort(key=lambda pair: statistics.median(samples[pair]))
            alive = alive[: max(FINALISTS, (len(alive) + 1) // 2)]
            if self._default not in alive:
                alive.append(self._default)
        self._take_turns(alive, samples, FINAL_TURNS)
        return {pair: statistics.median(samples[pair][-FINAL_TURNS:]) for pair in alive}

    def first_correct(self, ranked: list[AnyPair]) -> AnyPair:
        for pair in [*ranked, self._default]:
            if self._bench.error(self._cell, pair) <= MAX_ERROR:
                return pair
            self._fail("wrong")
        raise CellError(f"{self._cell}: the default block sizes give wrong results")

    def _prepared(self, pair: AnyPair) -> bool:
        if pair in self._timers:
            return True
        if pair in self._excluded or pair[:1] in self._excluded:
            if pair == self._default:
                raise CellError(f"{self._cell}: the default does not compile, hangs or ends the process")
            return False
        self._trying(pair)
        try:
            self._timers[pair] = self._bench.prepare(self._cell, pair)
        except CandidateError as exc:
            if pair == self._default:
                raise CellError(f"{self._cell}: the default block sizes do not run: {exc}") from exc
            self._fail(str(exc))
            return False
        return True

    def _fail(self, reason: str) -> None:
        self.failed[reason] = self.failed.get(reason, 0) + 1

    def _take_turns(
        self, alive: Sequence[AnyPair], samples: dict[AnyPair, list[float]], num_turns: int
    ) -> None:
        for _ in range(num_turns):
            for pair in alive:
                samples[pair].append(self._timers[pair]())
