"""Every adapter that the server knows: checked, stored, loaded, replaced whole, drained and removed."""

import asyncio
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from weakref import WeakValueDictionary

from lorikeet.serve.adapters.entry import AdapterState, Entry, Source, Version
from lorikeet.serve.adapters.errors import (
    AdapterConflictError,
    AdapterError,
    AdapterNotFoundError,
    AdaptersUnavailableError,
)
from lorikeet.serve.adapters.files import Place
from lorikeet.serve.adapters.listed import ListedAdapters
from lorikeet.serve.adapters.metrics import AdapterMetrics
from lorikeet.serve.adapters.names import check_name
from lorikeet.serve.adapters.reason import Reason
from lorikeet.serve.adapters.report import Report, shown
from lorikeet.serve.adapters.setup import Setup, Wish, check_only, stage_and_check
from lorikeet.serve.adapters.store import Staged
from lorikeet.serve.adapters.versions import AdapterEngine, Versions
from lorikeet.serve.log import logger
from lorikeet.serve.metrics import Metrics
from lorikeet.serve.threads import in_thread

MAX_CHECKS = 2  # copies and checks at once; each reads a whole file
MAX_REMOVED = 100  # removed adapters that stay visible


class Catalogue:
    """Adapters by name. Everything that changes one holds its name's lock."""

    def __init__(self, adapter_metrics: AdapterMetrics, metrics: Metrics, default_limit: int | None) -> None:
        self.entries: dict[str, Entry] = {}
        self.listed = ListedAdapters(self.entries, metrics, default_limit)
        self._adapter_metrics = adapter_metrics
        self._metrics = metrics
        self._setup: Setup | None = None
        self._versions: Versions | None = None
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._checks = asyncio.Semaphore(MAX_CHECKS)
        self._saving = asyncio.Lock()

    def note_refused(self, name: str, wish: Wish, error: AdapterError) -> None:
        """Show an adapter that could not even be looked at."""
        entry = self.entries.get(name)
        if entry is None or not entry.is_listed:
            entry = self.entries[name] = Entry(name, wish.source, wish.origin)
        self._refuse(entry, error, is_shown=True)

    def documents(self, visible: frozenset[str] | None = None) -> list[dict[str, Any]]:
        """All adapters, or those among `visible`, as plain data."""
        entries = sorted([*self.entries.values()], key=lambda entry: entry.name)
        return [entry.document() for entry in entries if visible is None or entry.name in visible]

    def find(self, name: str) -> Entry:
        """Raises AdapterNotFoundError."""
        entry = self.entries.get(name)
        if entry is None:
            message = f"adapter '{shown(name)}' does not exist; GET /admin/adapters lists all"
            raise AdapterNotFoundError(message, Reason.NAME)
        return entry

    async def attach(self, setup: Setup, engine: AdapterEngine) -> None:
        """Load what start-up found sound, and take requests from now on."""
        self._setup = setup
        self._versions = Versions(engine, setup.store, setup.max_versions)
        for entry in list(self.entries.values()):
            if entry.state is not AdapterState.READY or entry.version is None:
                continue
            began = time.monotonic()
            try:
                await self._load(entry, entry.version)
            except AdapterError as exc:
                entry.version = None
                self._refuse(entry, exc, is_shown=True)
            else:
                self._count_load(began)
        await self._save()

    async def put(self, name: str, wish: Wish) -> Entry:
        """Serve the adapter that `wish` names, in place of the one that has the name.

        Returns once new requests get it. The same content again changes nothing but pinned and limit.

        Raises:
            AdapterError: it is refused; what was served under the name still is.
        """
        setup, _ = self._open()
        check_name(name, setup.base_names)
        async with self._locks.setdefault(name, asyncio.Lock()):
            entry = self._entry_for(name, wish)
            began = time.monotonic()
            try:
                staged, report = await self._stage(name, wish.place)
            except AdapterError as exc:
                self._refuse(entry, exc)
                raise
            entry.pinned = entry.pinned if wish.pinned is None else wish.pinned
            if wish.max_concurrency is not None:
                entry.max_concurrency = wish.max_concurrency
            if entry.version and entry.is_listed and entry.version.digest == staged.digest:
                setup.store.drop(staged)
                entry.reason = ""  # of a replacement that was refused
            else:
                await self._replace(entry, wish, staged, report, began)
        await self._save()
        return entry

    async def change(self, name: str, pinned: bool | None, max_concurrency: int | None) -> Entry:
        """Change how an adapter is served, not what; raises AdapterNotFoundError."""
        self._open()
        async with self._locks.setdefault(name, asyncio.Lock()):
            entry = self.find(name)
            entry.pinned = entry.pinned if pinned is None else pinned
            entry.max_concurrency = max_concurrency or entry.max_concurrency
        await self._save()
        return entry

    async def check(self, name: str, place: Place) -> Report:
        """Report on an adapter without serving it."""
        setup, _ = self._open()
        check_name(name, setup.base_names)
        async with self._checks:
            return await in_thread(lambda: check_only(setup, name, place))

    async def remove(self, name: str, source: Source = Source.API) -> Entry:
        """Take the name away at once; the weights go when the last request that uses them ends.

        Raises:
            AdapterNotFoundError: no adapter has the name.
            AdapterConflictError: it is the watched folder's.
        """
        _, versions = self._open()
        async with self._locks.setdefault(name, asyncio.Lock()):
            entry = self.find(name)
            self._check_owner(entry, source)
            version, entry.version = entry.version, None
            if version is not None:
                entry.enter(AdapterState.DRAINING, f"removed by {source.value}")
                versions.in_background(self._drain(entry, version))
            elif entry.state is not AdapterState.DRAINING:
                self._gone(entry)
        await self._save()
        return entry

    async def tick(self) -> None:
        """Once a second or so: keep pinned adapters resident, drop the files of removed ones."""
        if self._versions is None:
            return
        for entry in list(self.entries.values()):
            if entry.pinned and entry.is_listed and entry.version:
                await self._versions.touch(entry.version)
        used = {entry.version.digest for entry in self.entries.values() if entry.version}
        await self._versions.discard_due(used)

    def lease(self, lora_request: Any) -> AbstractContextManager[Any]:
        """The engine's request for the one that vLLM's API layer has, kept loaded meanwhile."""
        if lora_request is None or self._versions is None:
            return nullcontext(lora_request)
        return self._versions.lease(lora_request)

    def _open(self) -> tuple[Setup, Versions]:
        if self._setup is None or self._versions is None:
            raise AdaptersUnavailableError(
                "adapters can't be changed: the server is starting, or LoRA is off; see GET /readyz",
                Reason.CAPACITY,
            )
        return self._setup, self._versions

    def _entry_for(self, name: str, wish: Wish) -> Entry:
        """The name's entry, new where there is none that lives, in the state `checking` unless it serves."""
        entry = self.entries.get(name)
        if entry is not None and entry.is_listed:
            self._check_owner(entry, wish.source)
        else:
            entry = self.entries[name] = Entry(name, wish.source, wish.origin)
        return entry

    def _check_owner(self, entry: Entry, source: Source) -> None:
        if entry.source is not source and Source.FOLDER in (entry.source, source):
            raise AdapterConflictError(
                f"adapter '{entry.name}' comes from {entry.source.value} ({entry.origin}); change it there",
                Reason.CONFLICT,
            )

    async def _stage(self, name: str, place: Place) -> tuple[Staged, Report]:
        setup, _ = self._open()
        async with self._checks:
            staged, report = await in_thread(lambda: stage_and_check(setup, name, place))
        if not report.is_sound:
            setup.store.drop(staged)
        report.raise_if_refused(name)
        return staged, report

    async def _replace(self, entry: Entry, wish: Wish, staged: Staged, report: Report, began: float) -> None:
        setup, versions = self._open()
        old = entry.version
        try:
            path = setup.store.keep(staged)
            await self._load(entry, Version(entry.name, staged.digest, path, report.rank or 0))
        except AdapterError as exc:
            setup.store.drop(staged)
            versions.discard_later(staged.digest)
            self._refuse(entry, exc)
            raise
        entry.source, entry.origin = wish.source, wish.origin
        entry.num_bytes, entry.warnings = report.num_bytes, report.warnings
        self._count_load(began)
        for warning in report.warnings:
            logger.warning("adapter '%s': %s", entry.name, warning)
        if old is not None:
            versions.in_background(versions.retire(old))

    async def _load(self, entry: Entry, version: Version) -> None:
        """Load a version; from the line after it, new requests get it."""
        _, versions = self._open()
        if not entry.is_listed:
            entry.enter(AdapterState.LOADING)
        await versions.load(version)
        entry.version = version
        self._metrics.expect(entry.name)
        entry.enter(AdapterState.SERVING)
        logger.info("adapter '%s' is served: rank %d, sha256 %.12s", entry.name, version.rank, version.digest)

    def _refuse(self, entry: Entry, error: AdapterError, is_shown: bool = False) -> None:
        self._adapter_metrics.loads.labels("refused", error.reason.value).inc()
        logger.error("refused: %s", error)
        if entry.is_listed:
            entry.reason = f"its replacement was refused: {error}"
        elif is_shown or entry.source in (Source.FOLDER, Source.ARGUMENT):
            entry.enter(AdapterState.REFUSED, str(error))
        elif self.entries.get(entry.name) is entry:
            del self.entries[entry.name]  # whoever asked has the answer

    async def _drain(self, entry: Entry, version: Version) -> None:
        _, versions = self._open()
        await versions.retire(version)
        if entry.version is None and self.entries.get(entry.name) is entry:
            self._gone(entry)

    def _gone(self, entry: Entry) -> None:
        entry.enter(AdapterState.REMOVED, entry.reason)
        self._metrics.forget(entry.name)
        removed = [e for e in self.entries.values() if e.state is AdapterState.REMOVED]
        for old in sorted(removed, key=lambda e: e.since)[:-MAX_REMOVED]:
            del self.entries[old.name]

    def _count_load(self, began: float) -> None:
        self._adapter_metrics.loads.labels("ok", "").inc()
        self._adapter_metrics.load_seconds.observe(time.monotonic() - began)

    async def _save(self) -> None:
        setup, _ = self._open()
        async with self._saving:
            records = [entry.record() for entry in self.entries.values() if entry.is_listed]
            try:
                await in_thread(lambda: setup.store.save(records))
            except OSError as exc:
                logger.error("the list of adapters can't be saved in %s: %s", setup.store.folder, exc)
