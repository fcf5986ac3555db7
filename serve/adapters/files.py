"""Copies an adapter's two files out of a folder, and never one from outside the folders that are allowed."""

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from lorikeet.serve.adapters.errors import AdapterRefusedError
from lorikeet.serve.adapters.peft_config import CONFIG_FILE
from lorikeet.serve.adapters.reason import Reason
from lorikeet.serve.adapters.report import shown
from lorikeet.serve.adapters.tensor_file import PICKLES, TENSOR_FILE

CHUNK_BYTES = 4 * 1024**2
FILES = (CONFIG_FILE, TENSOR_FILE)


@dataclass(frozen=True)
class Place:
    """A folder to read, and the folders that its files must lie in; no `roots`: the operator named it."""

    folder: Path
    roots: tuple[Path, ...] | None = None

    def resolve(self, name: str) -> Path:
        """The folder without links.

        Raises:
            AdapterRefusedError: it isn't below a root, whether it exists or not; or it doesn't exist.
        """
        folder = self._contained(self.folder, name)
        if not os.path.isdir(folder):  # False, too, for a name that no file can have
            raise AdapterRefusedError(
                f"adapter '{shown(name)}': no folder {shown(self.folder)}; name the one that holds its files",
                Reason.PATH,
            )
        return folder

    def open(self, path: Path, name: str) -> BinaryIO | None:
        """Open a regular file; None where there is none.

        Raises:
            AdapterRefusedError: it is a link out of the roots, something other than a file, or unreadable.
        """
        path = self._contained(path, name)
        try:
            # Without O_NONBLOCK, opening a pipe would wait for its other end.
            handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise AdapterRefusedError(
                f"adapter '{shown(name)}': {path.name} can't be read ({exc.strerror}); check its permissions",
                Reason.PATH,
            ) from exc
        kind = os.fstat(handle).st_mode
        # Asked of the open file, so that a link swapped in meanwhile changes nothing.
        opened = Path(os.readlink(f"/proc/self/fd/{handle}"))
        if stat.S_ISREG(kind) and self._contains(opened):
            return os.fdopen(handle, "rb")
        os.close(handle)
        if stat.S_ISDIR(kind):
            return None
        if stat.S_ISREG(kind):
            raise self._outside(name)
        message = f"adapter '{shown(name)}': {path.name} is no regular file; copy it"
        raise AdapterRefusedError(message, Reason.PATH)

    def _contained(self, path: Path, name: str) -> Path:
        try:
            resolved = path.resolve()
        except (OSError, ValueError, RuntimeError) as exc:  # too long, a NUL, links in a circle
            raise self._outside(name) from exc
        if not self._contains(resolved):
            raise self._outside(name)
        return resolved

    def _contains(self, path: Path) -> bool:
        return self.roots is None or any(path.is_relative_to(root.resolve()) for root in self.roots)

    def _outside(self, name: str) -> AdapterRefusedError:
        allowed = ", ".join(map(str, self.roots or ())) or "none"
        return AdapterRefusedError(
            f"adapter '{shown(name)}': its path leads out of the allowed folders ({allowed}); "
            "copy it there, or name its folder in LORIKEET_ADAPTER_ROOTS",
            Reason.PATH,
        )


def copy_adapter(place: Place, name: str, target: Path, max_bytes: int) -> str:
    """Copy what there is of the adapter's files into `target`; returns the digest of names and contents.

    Raises:
        AdapterRefusedError: see `Place`; or a file is larger than `max_bytes`.
    """
    folder = place.resolve(name)
    digest = hashlib.sha256()
    for pickle in PICKLES:
        if os.path.isfile(folder / pickle):
            (target / pickle).touch()  # its name is enough for the check to say what is wrong
    for file_name in FILES:
        source = place.open(folder / file_name, name)
        if source is None:
            continue
        with source:
            num_bytes = os.fstat(source.fileno()).st_size
            if num_bytes > max_bytes:
                raise AdapterRefusedError(
                    f"adapter '{shown(name)}': {file_name} has {num_bytes} bytes, "
                    f"above the limit of {max_bytes}; raise LORIKEET_MAX_ADAPTER_BYTES",
                    Reason.SIZE,
                )
            digest.update(f"{file_name} {num_bytes}\n".encode())
            _copy(source, target / file_name, num_bytes, digest)
    return digest.hexdigest()


def digest_of(folder: Path) -> str:
    """The digest that `copy_adapter` gave the files in `folder`, computed again."""
    digest = hashlib.sha256()
    for file_name in FILES:
        path = folder / file_name
        if path.is_file():
            digest.update(f"{file_name} {path.stat().st_size}\n".encode())
            with path.open("rb") as file:
                while chunk := file.read(CHUNK_BYTES):
                    digest.update(chunk)
    return digest.hexdigest()


def _copy(source: BinaryIO, target: Path, num_bytes: int, digest: "hashlib._Hash") -> None:
    """Copy `num_bytes`: a file that grows meanwhile is cut, and the check finds what that broke."""
    left = num_bytes
    with target.open("wb") as copy:
        while left and (chunk := source.read(min(CHUNK_BYTES, left))):
            digest.update(chunk)
            copy.write(chunk)
            left -= len(chunk)
    target.chmod(0o444)
