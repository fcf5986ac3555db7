"""What a start leaves for the next one: kept, stale, damaged, foreign and unwritable."""

import json
import logging
from pathlib import Path

import pytest

from lorikeet.kernels.autotune_memory import Memory, memory_file, recall, remember

NOW = "0.7.0.post1"
MARKED = Memory(NOW, ("fp8_gemm",))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return memory_file(tmp_path, 0)


@pytest.mark.parametrize("memory", [MARKED, Memory(NOW, clean=True), Memory(NOW)])
def test_kept(memory: Memory, path: Path) -> None:
    assert remember(path, memory)
    assert recall(path, NOW) == memory


def test_ranks_have_files_of_their_own(tmp_path: Path) -> None:
    remember(memory_file(tmp_path, 0), MARKED)
    assert recall(memory_file(tmp_path, 1), NOW) == Memory(NOW)


def test_marks_are_a_reason_and_a_clean_start_is_none() -> None:
    assert MARKED.mark == "marked"
    assert Memory(NOW, clean=True).mark == ""


def test_another_flashinfers_says_nothing(path: Path) -> None:
    remember(path, MARKED)
    assert recall(path, "0.8.0") == Memory("0.8.0")


def test_another_schemas_says_nothing(path: Path) -> None:
    path.write_text(json.dumps({"schema": 99, "flashinfer": NOW, "anything": 1}))
    assert recall(path, NOW) == Memory(NOW)


@pytest.mark.parametrize(
    "content",
    ["", "{", '{"schema": 1', "[]", "null", '{"schema": 1}', "\xff\xfe",
     '{"schema": 1, "flashinfer": "0.7.0.post1", "needs_autotune": 3, "clean": true}',
     '{"schema": 1, "flashinfer": "0.7.0.post1", "needs_autotune": [3], "clean": true}'],
)  # fmt: skip
def test_a_damaged_one_counts_as_a_mark_and_warns_once(
    content: str, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path.write_bytes(content.encode("latin-1"))
    with caplog.at_level(logging.WARNING):
        memory = recall(path, NOW)
    assert memory.mark == "mark_damaged"
    assert not memory.clean
    assert len(caplog.records) == 1


@pytest.mark.parametrize("cut", [2, 20, 40])
def test_a_truncated_one_is_damaged(cut: int, path: Path) -> None:
    remember(path, MARKED)
    path.write_bytes(path.read_bytes()[:-cut])
    assert recall(path, NOW).mark == "mark_damaged"


def test_a_folder_in_its_place_is_damage(path: Path) -> None:
    path.mkdir()
    assert recall(path, NOW).damaged
    assert not remember(path, MARKED)


def test_one_that_cannot_be_written_warns(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert not remember(path.parent / "no such folder" / path.name, MARKED)
    assert "can't be written" in caplog.text


def test_without_a_folder_nothing_is_known() -> None:
    assert recall(None, NOW) == Memory(NOW)


def test_nothing_is_left_beside_it(path: Path) -> None:
    remember(path, MARKED)
    assert list(path.parent.iterdir()) == [path]
