"""The server's own copies of adapters: one folder for each content, never changed, and the list of names."""

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lorikeet.serve.adapters.files import Place, copy_adapter, digest_of
from lorikeet.serve.errors import StartError
from lorikeet.serve.log import logger

CATALOGUE_FILE = "catalogue.json"


@dataclass(frozen=True)
class Record:
    """What is remembered of one adapter over a restart."""

    name: str
    digest: str
    source: str
    origin: str
    pinned: bool = False
    max_concurrency: int | None = None


@dataclass(frozen=True)
class Staged:
    """A copy that has no place in the store yet."""

    folder: Path
    digest: str


class Store:
    """Owns `folder` for as long as this process lives."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._blobs = folder / "adapters"
        self._staging = folder / "staging"
        self._lock = _lock(folder)
        shutil.rmtree(self._staging, ignore_errors=True)  # what a killed server left half copied
        self._blobs.mkdir(exist_ok=True)
        self._staging.mkdir()

    def stage(self, place: Place, name: str, max_bytes: int) -> Staged:
        """Copy an adapter's files to where nobody else changes them.

        Raises:
            AdapterRefusedError: they can't be read, or mustn't be.
        """
        folder = Path(tempfile.mkdtemp(dir=self._staging))
        try:
            return Staged(folder, copy_adapter(place, name, folder, max_bytes))
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def drop(self, staged: Staged) -> None:
        shutil.rmtree(staged.folder, ignore_errors=True)

    def keep(self, staged: Staged) -> Path:
        """Give the copy its place; the same content has the same one."""
        target = self.path(staged.digest)
        if target.is_dir():
            self.drop(staged)
        else:
            staged.folder.rename(target)
        return target

    def path(self, digest: str) -> Path:
        return self._blobs / digest

    def is_whole(self, digest: str) -> bool:
        """Whether the store has this content, unchanged."""
        return self.path(digest).is_dir() and digest_of(self.path(digest)) == digest

    def discard(self, digests: Iterable[str]) -> None:
        for digest in digests:
            shutil.rmtree(self.path(digest), ignore_errors=True)

    def discard_all_but(self, digests: Iterable[str]) -> None:
        kept = set(digests)
        self.discard(path.name for path in self._blobs.iterdir() if path.name not in kept)

    def save(self, records: Iterable[Record]) -> None:
        """Write the list of names; a reader sees the old one or the new one, whole."""
        scratch = self.folder / f"{CATALOGUE_FILE}.new"
        scratch.write_text(json.dumps([asdict(record) for record in records], indent=1))
        scratch.replace(self.folder / CATALOGUE_FILE)

    def load(self) -> list[Record]:
        """The list as it was saved; an unreadable one is said in the log, set aside, and empty."""
        path = self.folder / CATALOGUE_FILE
        try:
            raw: list[dict[str, Any]] = json.loads(path.read_text())
            return [Record(**record) for record in raw]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, TypeError) as exc:
            logger.error("the store's %s can't be read (%s); set aside as %s.bad", path, exc, path.name)
            path.replace(path.with_suffix(".bad"))
            return []


def open_store(chosen: Path | None, default: Path, private: Path) -> Store:
    """Open the store at `chosen`, or at `default` where nothing was chosen.

    The default can be taken by another server of this machine; then this one's is `private`.

    Raises:
        StartError: the store can't be written, or the chosen one belongs to another server.
    """
    try:
        (chosen or default).mkdir(parents=True, exist_ok=True)
        return Store(chosen or default)
    except BlockingIOError as exc:
        if chosen:
            raise StartError(
                f"LORIKEET_STORE_DIR={chosen} is in use by another server; name another folder"
            ) from exc
        private.mkdir()
        logger.warning(
            "another server uses the adapter store %s: adapters of this one are kept in %s, and those added "
            "by request do not survive a restart; set LORIKEET_STORE_DIR",
            *(default, private),
        )
        return Store(private)
    except OSError as exc:
        raise StartError(
            f"the adapter store {chosen or default} can't be written ({exc.strerror}); set LORIKEET_STORE_DIR"
        ) from exc


def _lock(folder: Path) -> int:
    """Hold a lock on the folder until this process ends; raises BlockingIOError when another has it."""
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise
    return handle
