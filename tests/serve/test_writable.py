"""The folders that a start writes to. Root may write everywhere, so file systems refuse it here."""

import os
import tempfile
from pathlib import Path

import pytest

from lorikeet.serve.errors import StartError
from lorikeet.serve.writable import check_writable

NOWHERE = Path("/proc/lorikeet")  # not even root can make a folder there


def test_makes_the_cache_folder(tmp_path: Path) -> None:
    check_writable(tmp_path / "a" / "cache", None)
    assert list((tmp_path / "a" / "cache").iterdir()) == []


@pytest.mark.parametrize("name", ["LORIKEET_CACHE_DIR", "LORIKEET_RUN_DIR"])
def test_names_the_setting_the_user_and_what_to_do(name: str, tmp_path: Path) -> None:
    folders = (NOWHERE, None) if name == "LORIKEET_CACHE_DIR" else (tmp_path, NOWHERE)
    with pytest.raises(StartError, match=f"{name}={NOWHERE}: user {os.getuid()} .* mount a volume"):
        check_writable(*folders)


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "cache").touch()
    with pytest.raises(StartError, match="File exists"):
        check_writable(tmp_path / "cache", None)


def test_no_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(NOWHERE)])
    with pytest.raises(StartError, match="mount a tmpfs on /tmp"):
        check_writable(tmp_path, None)
