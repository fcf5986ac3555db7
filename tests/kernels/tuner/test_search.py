"""The search of one cell with a fake timer: what it finds, and what it lives through."""

import math
from dataclasses import dataclass, field, replace

import pytest
from tuned_samples import H200, QKV

from lorikeet.kernels.tuner.cells import Cell
from lorikeet.kernels.tuner.search import (
    MIN_GAIN,
    AnyPair,
    CandidateError,
    CellError,
    Timer,
    search,
)
from lorikeet.kernels.tuner.space import LoraSpace

CELL = Cell(QKV, 16)
SPACE = LoraSpace(H200)
DEFAULT = SPACE.default(CELL)


@dataclass
class FakeBench:
    """Times by formula: `fast` are planted, all else takes 10 µs; the clock drifts by 1% a turn."""

    fast: dict[AnyPair, float] = field(default_factory=dict)
    broken: dict[AnyPair, str] = field(default_factory=dict)
    wrong: set[AnyPair] = field(default_factory=set)
    prepared: list[AnyPair] = field(default_factory=list)
    turns: list[AnyPair] = field(default_factory=list)

    def prepare(self, cell: Cell, pair: AnyPair) -> Timer:
        self.prepared.append(pair)
        if pair in self.broken:
            raise CandidateError(self.broken[pair])

        def turn() -> float:
            self.turns.append(pair)
            return self.fast.get(pair, 10.0) * (1 + 0.01 * len(self.turns) / len(self.prepared))

        return turn

    def error(self, cell: Cell, pair: AnyPair) -> float:
        return math.nan if pair in self.wrong else 0.003


def planted(number: int = -1, second: int = -1) -> AnyPair:
    """A pair that is not the default, with its shrink alone already a little faster."""
    first = SPACE.firsts(CELL)[number]
    return first, SPACE.seconds(CELL, first)[second]


def find(bench: FakeBench, **arguments):
    return search(CELL, SPACE, bench, **arguments)


@pytest.mark.parametrize("number", [1, 5, -1])
def test_a_planted_optimum_is_found(number: int) -> None:
    best = planted(number)
    hint = (best[0], SPACE.second(CELL, best[0]))  # the sum tells that this shrink is good
    outcome = find(FakeBench({best: 5.0, hint: 8.0}))
    assert outcome.pair == best
    assert outcome.us == pytest.approx(5.0, rel=0.5)
    assert outcome.default == DEFAULT
    assert outcome.default_us > outcome.us * 1.9
    assert outcome.best[0] == best


def test_the_default_stays_where_nothing_is_faster() -> None:
    assert find(FakeBench()).pair == DEFAULT


def test_the_default_stays_where_the_gain_is_noise() -> None:
    best = planted()
    hint = (best[0], SPACE.second(CELL, best[0]))
    assert find(FakeBench({best: 10 * (1 - MIN_GAIN / 2), hint: 9.9})).pair == DEFAULT
    assert find(FakeBench({best: 10 * (1 - MIN_GAIN * 2), hint: 9.9})).pair == best


def test_candidates_that_cannot_run_are_left_out() -> None:
    first = SPACE.firsts(CELL)[1]
    broken = {
        (first, SPACE.second(CELL, first)): "OutOfResources",
        (SPACE.firsts(CELL)[2], SPACE.second(CELL, SPACE.firsts(CELL)[2])): "out of memory",
    }
    outcome = find(FakeBench(broken=broken))
    assert outcome.pair == DEFAULT
    assert outcome.failed == {"OutOfResources": 1, "out of memory": 1}


def test_a_wrong_candidate_does_not_win() -> None:
    fastest, second = planted(-1, -1), planted(-1, 0)
    hint = (fastest[0], SPACE.second(CELL, fastest[0]))
    bench = FakeBench({fastest: 4.0, second: 5.0, hint: 6.0}, wrong={fastest})
    outcome = find(bench)
    assert outcome.pair == second
    assert outcome.failed == {"wrong": 1}


def test_no_result_where_even_the_default_is_wrong() -> None:
    with pytest.raises(CellError, match="wrong results"):
        find(FakeBench(wrong={DEFAULT}))


def test_no_result_where_the_default_does_not_run() -> None:
    with pytest.raises(CellError, match="do not run: OutOfResources"):
        find(FakeBench(broken={DEFAULT: "OutOfResources"}))
    with pytest.raises(CellError, match="does not compile, hangs"):
        find(FakeBench(), excluded=[DEFAULT])


def test_excluded_never_run() -> None:
    first = SPACE.firsts(CELL)[1]
    pair = planted(2, 1)
    bench = FakeBench()
    find(bench, excluded=[(first,), pair])
    assert bench.prepared
    assert not [p for p in bench.prepared if p[0] == first or p == pair]


def test_given_pairs_only() -> None:
    bench = FakeBench({planted(3, 1): 3.0})
    outcome = find(bench, pairs=[planted(3, 1), planted(4, 1), DEFAULT])
    assert outcome.pair == planted(3, 1)
    assert set(bench.prepared) == {DEFAULT, planted(3, 1), planted(4, 1)}


def test_each_is_told_before_it_runs() -> None:
    bench, told = FakeBench(), []
    find(bench, trying=lambda pair: told.append((pair, len(bench.prepared))))
    assert [pair for pair, _ in told] == bench.prepared
    assert [count for _, count in told] == list(range(len(told)))


def test_candidates_take_turns_and_the_slow_ones_go() -> None:
    bench = FakeBench({planted(): 5.0})
    find(bench)
    num = len(SPACE.firsts(CELL))
    assert len(set(bench.turns[:num])) == num  # one turn each before anyone's second
    counts = {pair: bench.turns.count(pair) for pair in bench.turns}
    assert counts[DEFAULT] == max(counts.values())
    assert sorted(counts.values())[len(counts) // 4] <= 3


def test_cells_of_other_slots_have_other_defaults_and_the_same_rules() -> None:
    cell = Cell(replace(QKV, num_slots=32), 16)
    assert search(cell, SPACE, FakeBench()).pair == SPACE.default(cell)
