"""Everything that a start compiles or measures, in one folder; a damaged cache delays a start and ends none.

The folder is LORIKEET_CACHE_DIR. Mount it, and the next start on the same GPU with the same arguments
compiles and measures nothing again. Each part below it is keyed by its owner: vLLM by its configuration,
sources and our kernels' fingerprint; Triton by a kernel's source and types; FlashInfer by version and GPU.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from lorikeet.serve.errors import StartError
from lorikeet.serve.log import logger
from lorikeet.serve.writable import REMEDY, why_unwritable

# Variable that names a cache's place → folder below ours. vLLM puts Inductor's below its own.
FOLDERS = {
    "VLLM_CACHE_ROOT": "vllm",
    "TRITON_CACHE_DIR": "triton",
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
    "CUDA_CACHE_PATH": "cuda",
}
# Read by vLLM as JSON objects in every start, and not all of it expects another form.
PLANS = ("vllm/startup_plan/*.json", "vllm/modelinfos/*.json")
BINARIES = (".cubin", ".ptx", ".so")  # Triton's, never empty
FAILURES = "failed-starts"  # a file: how many starts in a row ended in a way that nobody explained
MAX_FAILURES = 2  # then the caches are put aside


def cache_environment(folder: Path) -> dict[str, str]:
    """The variables that put every cache below `folder`; a process sets those that are unset."""
    return {variable: str(folder / name) for variable, name in FOLDERS.items()}


def usable_folder(folder: Path, chosen: bool) -> Path:
    """`folder`, made if need be; a temporary one with a warning where it can't be written.

    Raises:
        StartError: it can't be written, and the operator has `chosen` it.
    """
    reason = why_unwritable(folder)
    if not reason:
        return folder
    if chosen:
        raise StartError(f"LORIKEET_CACHE_DIR={folder}: {reason}; {REMEDY}")
    temporary = Path(tempfile.mkdtemp(prefix="lorikeet-cache-"))
    logger.warning(
        "%s: %s; caches go to %s for now, LORIKEET_CACHE_DIR names another", folder, reason, temporary
    )
    return temporary


def check_caches(folder: Path) -> None:
    """Before a start: remove what is damaged, and put all aside after starts that nobody can explain."""
    if failed_starts(folder) >= MAX_FAILURES:
        aside = _put_aside(folder)
        logger.warning(
            "%d starts in a row failed with these caches: they are now in %s, and this start makes new ones",
            MAX_FAILURES, aside,
        )  # fmt: skip
        start_succeeded(folder)
    elif removed := [path for path in damaged(folder) if _remove(path)]:
        names = ", ".join(str(path.relative_to(folder)) for path in removed[:3])
        logger.warning("removed %d damaged cache entries, which are made anew: %s …", len(removed), names)


def damaged(folder: Path) -> Iterator[Path]:
    """Entries that would end a start: of Triton a kernel's folder, else a file."""
    for pattern in PLANS:
        yield from (path for path in folder.glob(pattern) if not _is_json_object(path))
    for kernel in folder.glob("triton/*/"):
        binaries = [path for suffix in BINARIES for path in kernel.glob(f"*{suffix}")]
        plans = kernel.glob("*.json")
        if any(path.stat().st_size == 0 for path in binaries) or not all(map(_is_json_object, plans)):
            yield kernel


def failed_starts(folder: Path) -> int:
    try:
        return int((folder / FAILURES).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return 0


def start_failed(folder: Path) -> None:
    """Count a start that ended in the engine for a reason that we don't know."""
    _write(folder, str(failed_starts(folder) + 1))


def start_succeeded(folder: Path) -> None:
    (folder / FAILURES).unlink(missing_ok=True)


def _put_aside(folder: Path) -> Path:
    """Move the caches into one folder, in place of those put aside before; what can't be moved stays."""
    aside = folder / "damaged"
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(exist_ok=True)
    for name in FOLDERS.values():
        if (folder / name).exists():
            os.rename(folder / name, aside / name)
    return aside


def _write(folder: Path, text: str) -> None:
    try:
        (folder / FAILURES).write_text(text, encoding="utf-8")
    except OSError as exc:
        logger.warning("%s can't be written: %s", folder / FAILURES, exc)


def _remove(path: Path) -> bool:
    try:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    except OSError as exc:
        logger.warning("damaged cache entry %s can't be removed: %s", path, exc)
        return False
    return True


def _is_json_object(path: Path) -> bool:
    try:
        return isinstance(json.loads(path.read_text(encoding="utf-8")), dict)
    except (OSError, ValueError):
        return False
