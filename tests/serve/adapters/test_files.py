import os
import shutil

import pytest
from bad_adapters import CONFIG, GOOD, WEIGHTS, linked_nowhere, linked_outside

from lorikeet.serve.adapters.errors import AdapterRefusedError
from lorikeet.serve.adapters.files import Place, copy_adapter, digest_of

MAX = 10**8


@pytest.fixture
def root(tmp_path):
    (tmp_path / "root").mkdir()
    (tmp_path / "copy").mkdir()
    return tmp_path / "root"


@pytest.fixture
def copy(root):
    def copy(folder, max_bytes=MAX):
        return copy_adapter(Place(folder, (root,)), "name", root.parent / "copy", max_bytes)

    return copy


def refusal(copy, folder) -> str:
    with pytest.raises(AdapterRefusedError) as caught:
        copy(folder)
    assert caught.value.reason == "path"
    return str(caught.value)


def test_a_copy_is_the_two_files_and_its_digest_is_that_of_their_content(root, copy):
    folder = shutil.copytree(GOOD, root / "good")
    (folder / "README.md").write_text("not copied")
    digest = copy(folder)
    made = root.parent / "copy"
    assert sorted(path.name for path in made.iterdir()) == [CONFIG, WEIGHTS]
    assert (made / WEIGHTS).read_bytes() == (GOOD / WEIGHTS).read_bytes()
    assert digest == digest_of(made) == digest_of(GOOD)
    assert not os.stat(made / WEIGHTS).st_mode & 0o222
    (folder / CONFIG).write_text("{}")
    assert digest_of(folder) != digest


def test_outside_the_roots_the_answer_is_the_same_whether_it_exists_or_not(root, copy):
    shutil.copytree(GOOD, root.parent / "there")
    answers = {
        refusal(copy, path)
        for path in (root.parent / "there", root.parent / "not-there", root / ".." / "there", root / "../no")
    }
    assert len(answers) == 1
    assert "LORIKEET_ADAPTER_ROOTS" in answers.pop()


def test_a_folder_that_only_begins_like_a_root_is_outside(root, copy):
    shutil.copytree(GOOD, root.parent / "root-2")
    assert "leads out" in refusal(copy, root.parent / "root-2")


@pytest.mark.parametrize("spoil", [linked_outside, linked_nowhere])
def test_a_link_out_of_the_roots_is_refused(root, copy, spoil):
    folder = shutil.copytree(GOOD, root / "linked")
    spoil(folder)
    assert "leads out" in refusal(copy, folder)


def test_a_linked_folder_and_links_in_a_circle_are_refused(root, copy):
    (root / "away").symlink_to(GOOD)
    (root / "round").symlink_to(root / "round")
    assert "leads out" in refusal(copy, root / "away")
    assert "name" in refusal(copy, root / "round")


def test_a_link_within_the_roots_is_followed(root, copy):
    shutil.copytree(GOOD, root / "..data")
    (root / "current").symlink_to("..data")
    assert copy(root / "current") == digest_of(GOOD)


def test_without_roots_the_operator_may_name_any_folder(tmp_path):
    assert copy_adapter(Place(GOOD), "name", tmp_path, MAX) == digest_of(GOOD)


def test_a_pipe_in_place_of_a_file_does_not_hang(root, copy):
    folder = shutil.copytree(GOOD, root / "pipe")
    (folder / WEIGHTS).unlink()
    os.mkfifo(folder / WEIGHTS)
    assert "no regular file" in refusal(copy, folder)


def test_a_path_that_no_file_can_have_is_refused(root, copy):
    assert "no folder" in refusal(copy, root / ("x" * 300))
    assert "leads out" in refusal(copy, root / "a\0b")


def test_too_large_is_refused_before_it_is_copied(root, copy):
    folder = shutil.copytree(GOOD, root / "large")
    with pytest.raises(AdapterRefusedError, match="LORIKEET_MAX_ADAPTER_BYTES"):
        copy(folder, max_bytes=2000)


def test_a_pickle_is_not_copied_but_named(root, copy):
    (root / "pickle").mkdir()
    (root / "pickle" / "adapter_model.bin").write_bytes(b"payload")
    copy(root / "pickle")
    assert (root.parent / "copy" / "adapter_model.bin").read_bytes() == b""
