"""What adapters are checked and kept with, and the step from a wish to a checked copy."""

from dataclasses import dataclass

from lorikeet.serve.adapters.base_model import BaseModel
from lorikeet.serve.adapters.entry import Source
from lorikeet.serve.adapters.errors import AdapterRefusedError
from lorikeet.serve.adapters.files import Place
from lorikeet.serve.adapters.preflight import Limits, preflight
from lorikeet.serve.adapters.reason import Reason
from lorikeet.serve.adapters.report import Report, shown
from lorikeet.serve.adapters.store import Staged, Store


@dataclass(frozen=True)
class Setup:
    """Known once the engine's configuration is."""

    store: Store
    base: BaseModel
    limits: Limits
    base_names: frozenset[str]
    max_versions: int  # what the engine keeps in memory at once


@dataclass(frozen=True)
class Wish:
    """That an adapter should be served: from where, and how."""

    source: Source
    place: Place
    origin: str
    pinned: bool | None = None
    max_concurrency: int | None = None


def stage(store: Store, name: str, place: Place, max_bytes: int) -> Staged:
    """Copy an adapter's files into the store's staging area.

    Raises:
        AdapterRefusedError: they mustn't or can't be copied.
    """
    try:
        return store.stage(place, name, max_bytes)
    except OSError as exc:
        raise AdapterRefusedError(
            f"adapter '{shown(name)}': can't be copied to {store.folder} ({exc.strerror}); make room there",
            Reason.SOURCE,
        ) from exc


def stage_and_check(setup: Setup, name: str, place: Place) -> tuple[Staged, Report]:
    """Copy an adapter's files and check the copy, which nobody can change after that; see `stage`."""
    staged = stage(setup.store, name, place, setup.limits.max_bytes)
    return staged, preflight(staged.folder, setup.base, setup.limits)


def check_only(setup: Setup, name: str, place: Place) -> Report:
    """Report on an adapter and keep nothing of it; see `stage`."""
    staged, report = stage_and_check(setup, name, place)
    setup.store.drop(staged)
    return report
