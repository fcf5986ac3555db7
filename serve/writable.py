"""Whether the folders that a start writes to can be written to, asked before anything else."""

import os
import tempfile
from pathlib import Path

from lorikeet.serve.errors import StartError

REMEDY = "mount a volume that they can write to, or name another folder"


def why_unwritable(folder: Path) -> str:
    """Who can't write to the folder and why, after trying; empty when they can. It is made if need be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as exc:
        return f"user {os.getuid()} of group {os.getgid()} can't write there ({exc.strerror or exc})"


def check_run_dir(run_dir: Path | None) -> None:
    """Try the folder for journals, or the system's temporary one where none is named.

    Raises:
        StartError: it can't be written to.
    """
    if run_dir is not None:
        if reason := why_unwritable(run_dir):
            raise StartError(f"LORIKEET_RUN_DIR={run_dir}: {reason}; {REMEDY}")
        return
    try:
        tempfile.gettempdir()
    except FileNotFoundError as exc:
        raise StartError(
            "no temporary folder (TMPDIR, /tmp, /var/tmp) can be written to; mount a tmpfs on /tmp"
        ) from exc
