"""Whether the folders that a start writes to can be written to, asked before anything else."""

import os
import tempfile
from pathlib import Path

from lorikeet.serve.errors import StartError


def check_writable(cache_dir: Path, run_dir: Path | None) -> None:
    """Try to write to the cache folder, and to the folder for journals or the system's temporary one.

    Raises:
        StartError: one of them can't be written to.
    """
    _try(cache_dir, f"LORIKEET_CACHE_DIR={cache_dir}")
    if run_dir is not None:
        _try(run_dir, f"LORIKEET_RUN_DIR={run_dir}")
        return
    try:
        tempfile.gettempdir()
    except FileNotFoundError as exc:
        raise StartError(
            "no temporary folder (TMPDIR, /tmp, /var/tmp) can be written to; mount a tmpfs on /tmp"
        ) from exc


def _try(folder: Path, what: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as exc:
        raise StartError(
            f"{what}: user {os.getuid()} of group {os.getgid()} can't write there ({exc.strerror}); "
            "mount a volume that they can write to, or name another folder"
        ) from exc
