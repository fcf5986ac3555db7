"""The folders that a start writes to. Root may write everywhere, so file systems refuse it here."""

import os
import tempfile
from pathlib import Path

import pytest

from lorikeet.serve.errors import StartError
from lorikeet.serve.writable import check_run_dir, why_unwritable

NOWHERE = Path("/proc/lorikeet")  # not even root can make a folder there


def test_makes_the_folder(tmp_path: Path) -> None:
    assert why_unwritable(tmp_path / "a" / "cache") == ""
    assert list((tmp_path / "a" / "cache").iterdir()) == []


def test_says_who_and_why(tmp_path: Path) -> None:
    (tmp_path / "cache").touch()
    assert why_unwritable(tmp_path / "cache").endswith("can't write there (File exists)")
    assert why_unwritable(NOWHERE).startswith(f"user {os.getuid()} of group {os.getgid()} ")


def test_run_dir(tmp_path: Path) -> None:
    check_run_dir(tmp_path)
    with pytest.raises(StartError, match=f"LORIKEET_RUN_DIR={NOWHERE}: user .* mount a volume"):
        check_run_dir(NOWHERE)


def test_no_temporary_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(NOWHERE)])
    with pytest.raises(StartError, match="mount a tmpfs on /tmp"):
        check_run_dir(None)
