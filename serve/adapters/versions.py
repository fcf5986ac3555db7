"""The versions of adapters that the engine holds: loaded, kept while something uses them, then freed."""

import asyncio
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from lorikeet.serve.adapters.entry import Version
from lorikeet.serve.adapters.errors import AdapterRefusedError
from lorikeet.serve.adapters.reason import Reason
from lorikeet.serve.adapters.store import Store
from lorikeet.serve.log import logger
from lorikeet.serve.threads import in_thread

DRAIN_POLL_S = 0.05
DISCARD_AFTER_S = 10.0  # a step that was under way may still name the files of a removed version


class AdapterEngine(Protocol):
    """What the catalogue needs of vLLM; see `engine_adapters.py`."""

    async def add(self, version: Version) -> None:
        """Load a version and fill in its engine side; raises AdapterRefusedError, leaving nothing behind."""

    async def remove(self, version: Version) -> None:
        """Free the version's slot and memory."""

    async def touch(self, version: Version) -> None:
        """Make it the most recently used, so that its slot is the last to be taken."""

    def gone(self, name: str) -> Exception:
        """The error that vLLM answers 404 for."""


class Versions:
    """What is in the engine. A version leaves it only when nothing holds a lease on it."""

    def __init__(self, engine: AdapterEngine, store: Store, limit: int) -> None:
        self._engine = engine
        self._store = store
        self._limit = limit
        self._loaded: dict[int, Version] = {}  # by the engine's id
        self._tasks: set[asyncio.Task[None]] = set()
        self._discards: dict[str, float] = {}  # digest → since when nothing names it

    async def load(self, version: Version) -> None:
        """Load a version; it can be used from the line after this call.

        Raises:
            AdapterRefusedError: the engine can't load it, or holds as many as it keeps without rereading.
        """
        if len(self._loaded) >= self._limit:
            raise AdapterRefusedError(
                f"adapter '{version.name}': {len(self._loaded)} are loaded, and --max-cpu-loras allows "
                f"{self._limit}; remove one, or raise it",
                Reason.CAPACITY,
            )
        await self._engine.add(version)
        self._loaded[version.lora_id] = version

    @contextmanager
    def lease(self, lora_request: Any) -> Iterator[Any]:
        """The engine's request for the one that vLLM's API layer has, kept loaded meanwhile."""
        version = self._loaded.get(lora_request.lora_int_id)
        if version is None:
            raise self._engine.gone(lora_request.lora_name)
        with version.lease():
            yield version.engine

    async def retire(self, version: Version) -> None:
        """Wait until nothing uses a version, then free its slot and memory in the engine."""
        while version.num_leases:
            await asyncio.sleep(DRAIN_POLL_S)
        self._loaded.pop(version.lora_id, None)
        await self._engine.remove(version)
        self.discard_later(version.digest)

    async def touch(self, version: Version) -> None:
        with version.lease():
            await self._engine.touch(version)

    def discard_later(self, digest: str) -> None:
        """Drop the files of a content, unless something names it by then."""
        self._discards[digest] = time.monotonic()

    async def discard_due(self, used: set[str]) -> None:
        """Drop the files that nothing has named for a while."""
        now = time.monotonic()
        due = {digest for digest, since in self._discards.items() if now - since > DISCARD_AFTER_S}
        unused = due - used - {version.digest for version in self._loaded.values()}
        for digest in due:
            del self._discards[digest]
        if unused:
            await in_thread(lambda: self._store.discard(unused))

    def in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a removal to its end, whoever asked for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            logger.error("an adapter could not be removed from the engine: %s", error)
