import json
import time

import pytest

from lorikeet.serve.timeline import API, Timeline, process_start_mono


@pytest.fixture
def write(tmp_path):
    """Appends a journal line: write(process, rank, event, phase, mono, **detail)."""

    def append(process, rank, event, phase, mono, **detail):
        line = {"time": 0, "mono": mono, "pid": 1, "process": process, "rank": rank}
        with (tmp_path / f"{process}-{rank}.jsonl").open("a") as file:
            file.write(json.dumps(line | {"event": event, "phase": phase, "detail": detail}) + "\n")

    return append


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("lorikeet.serve.timeline.time.monotonic", lambda: now[0])
    return now


def seconds(timeline: Timeline) -> dict[tuple[str, str], float]:
    return {(time.phase, time.rank): pytest.approx(time.seconds) for time in timeline.phases()}


def test_an_inner_phase_is_not_counted_in_the_outer_one(write, clock, tmp_path):
    timeline = Timeline(tmp_path, 0.0)
    for event, phase, mono in [
        ("begin", "profile", 1), ("begin", "compile", 2), ("end", "compile", 6), ("end", "profile", 8),
    ]:  # fmt: skip
        write("worker", 0, event, phase, mono)
    clock[0] = 10.0
    timeline.refresh()
    assert seconds(timeline) == {("profile", "0"): 3, ("compile", "0"): 4, ("other", API): 3}


def test_the_first_ranks_arrival_ends_the_spawn(write, clock, tmp_path):
    timeline = Timeline(tmp_path, 0.0)
    write("api", None, "begin", "engine_spawn", 1)
    write("worker", 1, "end", "engine_spawn", 4)
    write("worker", 0, "end", "engine_spawn", 5)
    write("api", None, "end", "engine_spawn", 30)  # comes when everything is over, and is too late
    clock[0] = 9.0
    timeline.refresh()
    assert seconds(timeline) == {("engine_spawn", API): 4, ("other", API): 5}


def test_other_ranks_are_shown_but_not_summed(write, clock, tmp_path):
    timeline = Timeline(tmp_path, 0.0)
    for rank, end in ((0, 3), (1, 8)):
        write("worker", rank, "begin", "weights", 1)
        write("worker", rank, "end", "weights", end)
    clock[0] = 10.0
    timeline.refresh()
    assert seconds(timeline) == {("weights", "0"): 2, ("weights", "1"): 7, ("other", API): 8}


def test_running_phases_count_so_far_and_innermost_is_current(write, clock, tmp_path):
    timeline = Timeline(tmp_path, 0.0)
    write("worker", 0, "begin", "kernel_warmup", 2)
    write("worker", 0, "begin", "graph_capture", 5)
    clock[0] = 9.0
    timeline.refresh()
    assert timeline.current_phase() == "graph_capture"
    assert seconds(timeline) == {("graph_capture", "0"): 4, ("kernel_warmup", "0"): 3, ("other", API): 2}
    assert all(time.running for time in timeline.phases() if time.phase != "other")


def test_a_half_written_line_waits(write, clock, tmp_path):
    timeline = Timeline(tmp_path, 0.0)
    write("worker", 0, "begin", "weights", 1)
    file = tmp_path / "worker-0.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole[:20])
    timeline.refresh()
    assert timeline.current_phase() == "other"
    file.write_bytes(whole)
    timeline.refresh()
    assert timeline.current_phase() == "weights"


def test_the_first_error_is_the_failure(write, tmp_path):
    timeline = Timeline(tmp_path, 0.0)
    write("worker", 0, "begin", "weights", 1)
    write("worker", 0, "end", "weights", 2, error="ValueError: root")
    write("api", None, "begin", "app", 3)
    write("api", None, "end", "app", 4, error="RuntimeError: late")
    timeline.refresh()
    assert timeline.failure == "ValueError: root"


def test_nothing_changes_after_the_finish(write, clock, tmp_path):
    timeline = Timeline(tmp_path, 0.0)
    clock[0] = 5.0
    timeline.finish()
    clock[0] = 50.0
    write("worker", 0, "begin", "weights", 6)
    timeline.refresh()
    assert timeline.seconds == 5
    assert seconds(timeline) == {("other", API): 5}


def test_process_start_lies_just_behind_us():
    assert 0 < time.monotonic() - process_start_mono() < 3600


def test_what_ended_a_process_is_a_failure(write, tmp_path):
    timeline = Timeline(tmp_path, 0.0)
    write("engine", None, "note", "failure", 1, error="RuntimeError: no shared memory")
    timeline.refresh()
    assert timeline.failure == "RuntimeError: no shared memory"
