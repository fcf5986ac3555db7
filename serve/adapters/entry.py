"""One adapter of the catalogue, and the versions of its weights that the engine holds."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from lorikeet.serve.adapters.store import Record


class AdapterState(StrEnum):
    """checking → refused, or → ready → loading → serving → draining → removed."""

    CHECKING = "checking"
    READY = "ready"  # sound, and waits for the engine
    REFUSED = "refused"
    LOADING = "loading"
    SERVING = "serving"
    DRAINING = "draining"
    REMOVED = "removed"


class Source(StrEnum):
    """Who named an adapter, and so who may change it."""

    FOLDER = "folder"
    ARGUMENT = "argument"
    API = "api"
    HUB = "hub"


@dataclass(eq=False)
class Version:
    """One content under one name in the engine. `num_leases` counts what still needs it."""

    name: str
    digest: str
    path: Path
    rank: int
    lora_id: int = 0
    listed: Any = None  # vLLM's request object under the public name
    engine: Any = None  # the one that the engine gets, whose name no other version has
    num_leases: int = 0

    @contextmanager
    def lease(self) -> Iterator[None]:
        """Keep the engine's copy for as long as the block runs."""
        self.num_leases += 1
        try:
            yield
        finally:
            self.num_leases -= 1


@dataclass(eq=False)
class Entry:
    """What the catalogue knows under one name. `version` is what new requests get."""

    name: str
    source: Source
    origin: str
    state: AdapterState = AdapterState.CHECKING
    reason: str = ""
    since: float = field(default_factory=time.time)
    pinned: bool = False
    max_concurrency: int | None = None
    num_bytes: int = 0
    warnings: tuple[str, ...] = ()
    version: Version | None = None
    num_requests: int = 0  # HTTP requests that use it, of any version

    def enter(self, state: AdapterState, reason: str = "") -> None:
        self.state, self.reason, self.since = state, reason, time.time()

    @property
    def is_listed(self) -> bool:
        return self.version is not None and self.version.listed is not None

    def record(self) -> Record:
        assert self.version is not None
        digest = self.version.digest
        return Record(self.name, digest, self.source, self.origin, self.pinned, self.max_concurrency)

    def document(self) -> dict[str, Any]:
        """Plain data for `/status.json` and `/admin/adapters`."""
        version = self.version
        return {
            "name": self.name,
            "state": self.state.value,
            "reason": self.reason,
            "since": datetime.fromtimestamp(self.since, UTC).isoformat(timespec="milliseconds"),
            "source": self.source.value,
            "origin": self.origin,
            "digest": version.digest if version else None,
            "rank": version.rank if version else None,
            "bytes": self.num_bytes,
            "pinned": self.pinned,
            "max_concurrency": self.max_concurrency,
            "requests": self.num_requests,
            "warnings": list(self.warnings),
        }
