import pytest

from lorikeet.serve.lifecycle import Lifecycle, State


def walk(*states: State) -> Lifecycle:
    lifecycle = Lifecycle()
    for state in states:
        lifecycle.enter(state, f"because {state}")
    return lifecycle


@pytest.mark.parametrize(
    ("steps", "end"),
    [
        ([], State.STARTING),
        ([State.READY], State.READY),
        ([State.READY, State.DRAINING], State.DRAINING),
        ([State.READY, State.DRAINING, State.READY], State.DRAINING),
        ([State.READY, State.DRAINING, State.FAILED], State.FAILED),
        ([State.FAILED, State.READY], State.FAILED),
        ([State.FAILED, State.DRAINING], State.FAILED),
    ],
    ids=str,
)
def test_states_only_move_on(steps, end):
    assert walk(*steps).state is end


def test_a_refused_step_keeps_the_first_reason():
    assert walk(State.FAILED, State.READY).reason == "because failed"


def test_only_ready_is_ready():
    assert [walk(state).is_ready for state in State] == [state is State.READY for state in State]


def test_seconds_start_anew_with_each_state(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("lorikeet.serve.lifecycle.time.monotonic", lambda: now[0])
    lifecycle = Lifecycle()
    now[0] = 105.0
    assert lifecycle.seconds == 5
    lifecycle.enter(State.READY)
    assert lifecycle.seconds == 0
