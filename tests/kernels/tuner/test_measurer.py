"""The measuring process: what it survives, with candidates that really hang and really end it."""

import pytest
from staged_tuning import CELL, OTHER, SPACE, MakeTools, broken_tools, nth

from lorikeet.kernels.tuner.measurer import Measurer, MeasurerError
from lorikeet.kernels.tuner.search import CellError


@pytest.mark.slow
def test_it_goes_on_after_what_hangs_and_what_ends_the_process() -> None:
    staged = (
        (nth(1), "hangs"),
        (nth(2), "crashes"),
        (nth(3), "spoils the GPU"),
        (nth(4), "out of memory"),
    )
    with Measurer(MakeTools(nth(5), staged), step_timeout_s=10.0) as measurer:
        assert measurer.header["gpu"] == "NVIDIA H200"
        outcome = measurer.measure(CELL)
        assert outcome.pair == nth(5)
        assert outcome.failed == {"out of memory": 1, "hung or crashed": 3}
        assert measurer.num_restarts >= 3  # more where the machine is so busy that a child seems to hang
        assert measurer.measure(OTHER).default == SPACE.default(OTHER)


def test_a_cell_that_ends_the_process_each_time_is_given_up() -> None:
    staged = tuple((nth(number), "crashes") for number in range(1, 8))
    with Measurer(MakeTools(nth(0), staged), step_timeout_s=30.0) as measurer:
        with pytest.raises(CellError, match="hung or ended the process"):
            measurer.measure(CELL)
        assert measurer.measure(CELL, pairs=[nth(8)]).default == SPACE.default(CELL)


def test_excluded_candidates_never_reach_the_bench() -> None:
    with Measurer(MakeTools(nth(5), ((nth(1), "crashes"),)), step_timeout_s=30.0) as measurer:
        assert measurer.measure(CELL, excluded=[(nth(1)[0],)]).pair == nth(5)
        assert measurer.num_restarts == 0


def test_a_child_that_does_not_start_is_said_at_once() -> None:
    with pytest.raises(MeasurerError, match="no NVIDIA GPU here"), Measurer(broken_tools):
        pass


def test_no_process_is_left() -> None:
    with Measurer(MakeTools(nth(1))) as measurer:
        child = measurer._child
        assert child is not None
        assert child.is_alive()
    assert not child.is_alive()
