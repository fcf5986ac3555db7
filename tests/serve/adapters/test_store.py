import shutil

import pytest
from bad_adapters import GOOD, WEIGHTS

from lorikeet.serve.adapters.files import Place
from lorikeet.serve.adapters.store import Record, Store, open_store
from lorikeet.serve.errors import StartError

MAX = 10**8
RECORD = Record("legal", "abc", "api", "/adapters/legal", True, 4)


@pytest.fixture
def store(tmp_path):
    return open_store(tmp_path / "store", tmp_path / "default", tmp_path / "private")


def test_the_same_content_has_one_place_and_outlives_its_source(store, tmp_path):
    source = shutil.copytree(GOOD, tmp_path / "source")
    paths = {store.keep(store.stage(Place(source), name, MAX)) for name in ("a", "b")}
    shutil.rmtree(source)
    (path,) = paths
    assert store.is_whole(path.name)
    assert path.name in str(path)
    assert list((store.folder / "staging").iterdir()) == []


def test_a_changed_copy_is_noticed(store):
    path = store.keep(store.stage(Place(GOOD), "a", MAX))
    (path / WEIGHTS).chmod(0o644)
    with (path / WEIGHTS).open("r+b") as file:
        file.seek(20_000)
        file.write(b"\0\1\2")
    assert not store.is_whole(path.name)
    assert not store.is_whole("0" * 64)


def test_what_nothing_names_is_discarded(store):
    path = store.keep(store.stage(Place(GOOD), "a", MAX))
    store.discard_all_but([path.name])
    assert path.is_dir()
    store.discard_all_but([])
    assert not path.exists()


def test_the_list_survives_and_a_broken_one_is_set_aside(store):
    assert store.load() == []
    store.save([RECORD])
    assert store.load() == [RECORD]
    (store.folder / "catalogue.json").write_text("[{")
    assert store.load() == []
    assert (store.folder / "catalogue.bad").exists()


def test_a_store_has_one_owner(store, tmp_path):
    with pytest.raises(StartError, match="LORIKEET_STORE_DIR"):
        open_store(store.folder, tmp_path, tmp_path)
    private = open_store(None, store.folder, tmp_path / "private")  # the default is taken: not an error
    assert private.folder == tmp_path / "private"


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StartError, match="can't be written"):
        open_store(tmp_path / "file" / "store", tmp_path, tmp_path)


def test_half_made_copies_of_a_killed_server_are_removed(tmp_path):
    (tmp_path / "staging" / "half").mkdir(parents=True)
    Store(tmp_path)
    assert list((tmp_path / "staging").iterdir()) == []
