"""The mapping of names that vLLM looks up requests' models in, as the request at hand may see it."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lorikeet.serve.adapters.entry import Entry, Version
from lorikeet.serve.metrics import Metrics
from lorikeet.serve.request_scope import RequestScope, current_scope

Busy = Callable[[str, int], Exception]


class ListedAdapters(Mapping[str, Any]):
    """Name → vLLM's LoRARequest of every adapter that is served.

    Looking a name up on behalf of an HTTP request holds that version until the request ends, and counts
    it against the adapter's limit: here, because this is where vLLM first knows which adapter is meant,
    and an answer hasn't begun.
    """

    def __init__(self, entries: Mapping[str, Entry], metrics: Metrics, default_limit: int | None) -> None:
        self.busy: Busy = _unset
        self._entries = entries
        self._metrics = metrics
        self._default_limit = default_limit

    def __contains__(self, name: object) -> bool:
        scope = current_scope.get()
        if scope and name in scope.held:
            return True
        return isinstance(name, str) and self._find(name, scope) is not None

    def __getitem__(self, name: str) -> Any:
        scope = current_scope.get()
        if scope and name in scope.held:
            return scope.held[name].listed
        entry = self._find(name, scope)
        if entry is None or entry.version is None:
            raise KeyError(name)
        if scope:
            self._hold(entry, entry.version, scope)
        return entry.version.listed

    def __iter__(self) -> Iterator[str]:
        scope = current_scope.get()
        return iter([name for name in list(self._entries) if self._find(name, scope)])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def values(self) -> Any:
        """All requests, held by nobody: this is how vLLM lists models."""
        entries = [self._entries[name] for name in self]
        return [entry.version.listed for entry in entries if entry.version]

    def _find(self, name: str, scope: RequestScope | None) -> Entry | None:
        entry = self._entries.get(name)
        if entry is None or not entry.is_listed or (scope and not scope.sees(name)):
            return None
        return entry

    def _hold(self, entry: Entry, version: Version, scope: RequestScope) -> None:
        limit = entry.max_concurrency or self._default_limit
        if limit is not None and entry.num_requests >= limit:
            self._metrics.requests_rejected.labels("adapter_limit").inc()
            raise self.busy(entry.name, limit)
        entry.num_requests += 1
        version.num_leases += 1
        scope.held[entry.name] = version

        def release() -> None:
            entry.num_requests -= 1
            version.num_leases -= 1

        scope.releases.append(release)


def _unset(name: str, limit: int) -> Exception:
    return RuntimeError(f"adapter '{name}' is limited to {limit} requests, and no engine is attached")
