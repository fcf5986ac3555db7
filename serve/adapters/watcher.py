"""Follows the watched folder: sub-folders that appear, change or go, once they have been quiet."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lorikeet.serve.adapters.boot import folder_wishes
from lorikeet.serve.adapters.catalogue import Catalogue
from lorikeet.serve.adapters.entry import AdapterState, Source
from lorikeet.serve.adapters.errors import AdapterError
from lorikeet.serve.adapters.files import FILES
from lorikeet.serve.adapters.setup import Wish
from lorikeet.serve.adapters.tensor_file import PICKLES
from lorikeet.serve.log import logger
from lorikeet.serve.threads import in_thread

POLL_S = 1.0
Signature = tuple[tuple[str, int, int, int], ...]  # (file, size, change time, inode) of what is read


@dataclass
class Seen:
    """One sub-folder as it was at the last poll."""

    signature: Signature
    is_done: bool  # acted upon, whatever came of it: a refused one is tried again when it changes


class Watcher:
    """Polls, since many network mounts report no changes."""

    def __init__(self, root: Path | None, catalogue: Catalogue) -> None:
        self._root = root
        self._catalogue = catalogue
        self._seen: dict[str, Seen] = {}
        self._is_readable = True

    def take_start(self) -> None:
        """Remember what the start is about to deal with, as it is before it is read."""
        if self._root:
            with suppress(OSError):  # the start itself says so
                wishes = folder_wishes(self._root)
                self._seen = {name: Seen(_signature(wish), True) for name, wish in wishes.items()}

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            await asyncio.sleep(POLL_S)
            try:
                await self._catalogue.tick()
                await self.poll()
            except Exception:  # the next poll may find the mount again
                logger.exception("looking after adapters failed; trying again")

    async def poll(self) -> None:
        """Compare the folder with what it was, and act on what has stayed the same since the last poll."""
        if self._root is None:
            return
        root = self._root
        try:
            found = await in_thread(lambda: {n: (w, _signature(w)) for n, w in folder_wishes(root).items()})
        except OSError as exc:
            if self._is_readable:
                logger.error(
                    "LORIKEET_ADAPTERS=%s can't be read (%s): nothing is changed", root, exc.strerror
                )
            self._is_readable = False
            return
        self._is_readable = True
        for name, (wish, signature) in found.items():
            seen = self._seen.get(name)
            if seen is None or seen.signature != signature:
                self._seen[name] = Seen(signature, False)
            elif not seen.is_done:
                seen.is_done = True
                await self._put(name, wish)
        for name in self._seen.keys() - found.keys():
            seen = self._seen[name]
            if seen.signature == ():
                del self._seen[name]
                await self._remove(name)
            else:
                self._seen[name] = Seen((), False)

    async def _put(self, name: str, wish: Wish) -> None:
        try:
            await self._catalogue.put(name, wish)
        except AdapterError as exc:
            entry = self._catalogue.entries.get(name)
            if entry is None:  # its very name is refused
                self._catalogue.note_refused(name, wish, exc)

    async def _remove(self, name: str) -> None:
        entry = self._catalogue.entries.get(name)
        if entry and entry.source is Source.FOLDER and entry.state is not AdapterState.REMOVED:
            await self._catalogue.remove(name, Source.FOLDER)


def _signature(wish: Wish) -> Signature:
    found = []
    for name in (*FILES, *PICKLES):
        try:
            status = (wish.place.folder / name).stat()
        except OSError:
            continue
        found.append((name, status.st_size, status.st_mtime_ns, status.st_ino))
    return (("", 0, 0, 0), *found)  # never empty: an empty one is a folder that is gone
