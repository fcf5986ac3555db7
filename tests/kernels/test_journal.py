import json

import pytest

from lorikeet.kernels.journal import Journal


def lines(folder):
    return [json.loads(line) for path in folder.iterdir() for line in path.read_text().splitlines()]


def test_a_phase_is_a_begin_and_an_end(tmp_path):
    with Journal(tmp_path, "worker", 3).phase("weights", files=2):
        pass
    begin, end = lines(tmp_path)
    assert (begin["event"], begin["phase"], begin["detail"]) == ("begin", "weights", {"files": 2})
    assert (end["event"], end["rank"], end["process"]) == ("end", 3, "worker")
    assert begin["mono"] <= end["mono"]


def test_an_error_is_recorded_and_passes_on(tmp_path):
    with pytest.raises(ValueError, match="too small"), Journal(tmp_path, "worker", 0).phase("profile"):
        raise ValueError("too small")
    assert lines(tmp_path)[-1]["detail"] == {"error": "ValueError: too small"}


def test_a_line_can_be_dated_back(tmp_path):
    Journal(tmp_path, "api").write("begin", "import", mono=1.5)
    assert lines(tmp_path)[0]["mono"] == 1.5


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Journal(None, "worker", 0).write("note", "x")
    assert list(tmp_path.iterdir()) == []
