import asyncio
import shutil

import pytest
from bad_adapters import CASES, CONFIG, GOOD, make

from lorikeet.serve.adapters.entry import Source
from lorikeet.serve.adapters.errors import AdapterRefusedError
from lorikeet.serve.adapters.reason import Reason
from lorikeet.serve.adapters.watcher import Watcher


class Recorder:
    """A catalogue that writes down what it is asked."""

    def __init__(self):
        self.asked, self.entries = [], {}

    async def put(self, name, wish):
        self.asked.append(("put", name))
        if name == "bad name":
            raise AdapterRefusedError("no name", Reason.NAME)
        self.entries[name] = type("Entry", (), {"source": Source.FOLDER, "state": None})

    async def remove(self, name, source):
        self.asked.append(("remove", name))
        del self.entries[name]

    def note_refused(self, name, wish, error):
        self.asked.append(("refused", name))


@pytest.fixture
def recorder():
    return Recorder()


@pytest.fixture
def polls(tmp_path, recorder):
    """polls(n) → what the catalogue was asked in the next n polls."""
    watcher = Watcher(tmp_path, recorder)

    def polls(count=1):
        recorder.asked.clear()
        for _ in range(count):
            asyncio.run(watcher.poll())
        return list(recorder.asked)

    polls.watcher = watcher
    return polls


def test_a_new_folder_is_loaded_once_it_has_been_quiet(tmp_path, polls):
    shutil.copytree(GOOD, tmp_path / "legal")
    assert polls() == []
    (tmp_path / "legal" / CONFIG).write_text("{}")  # still being copied
    assert polls() == []
    assert polls() == [("put", "legal")]
    assert polls(3) == []


def test_a_change_is_loaded_again_and_a_refused_one_waits_for_a_change(tmp_path, polls):
    make(CASES[0], tmp_path)
    assert polls(2) == [("put", CASES[0].name)]
    assert polls(3) == []
    shutil.copytree(GOOD, tmp_path / CASES[0].name, dirs_exist_ok=True)
    assert polls(2) == [("put", CASES[0].name)]


def test_a_folder_that_goes_is_removed_after_a_second_look(tmp_path, polls):
    shutil.copytree(GOOD, tmp_path / "legal")
    polls(2)
    shutil.rmtree(tmp_path / "legal")
    assert polls() == []
    assert polls() == [("remove", "legal")]
    assert polls(2) == []


def test_what_the_start_has_read_is_not_loaded_again(tmp_path, polls):
    shutil.copytree(GOOD, tmp_path / "legal")
    polls.watcher.take_start()
    assert polls(3) == []


def test_a_mount_that_vanishes_removes_nothing(tmp_path, polls):
    shutil.copytree(GOOD, tmp_path / "legal")
    polls(2)
    tmp_path.rename(tmp_path.parent / "elsewhere")
    assert polls(3) == []
    (tmp_path.parent / "elsewhere").rename(tmp_path)
    assert polls(3) == []


def test_a_hidden_folder_and_a_file_are_nobodys_adapter(tmp_path, polls):
    shutil.copytree(GOOD, tmp_path / ".half")
    (tmp_path / "file").write_text("")
    assert polls(3) == []


def test_a_name_that_cannot_be_one_is_shown_as_refused(tmp_path, polls):
    shutil.copytree(GOOD, tmp_path / "bad name")
    assert polls(3) == [("put", "bad name"), ("refused", "bad name")]
