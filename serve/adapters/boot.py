"""The adapters of a start: those of folder, arguments and store, checked before the model loads."""

import os
import re
from argparse import Namespace
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lorikeet.serve.adapters.base_model import describe_base_model, model_names
from lorikeet.serve.adapters.catalogue import Catalogue
from lorikeet.serve.adapters.entry import AdapterState, Entry, Source, Version
from lorikeet.serve.adapters.errors import AdapterError
from lorikeet.serve.adapters.files import Place
from lorikeet.serve.adapters.names import check_name
from lorikeet.serve.adapters.peft_config import read_config
from lorikeet.serve.adapters.preflight import Limits, preflight
from lorikeet.serve.adapters.setup import Setup, Wish, stage
from lorikeet.serve.adapters.store import Record, Staged, Store, open_store
from lorikeet.serve.errors import StartError
from lorikeet.serve.log import logger
from lorikeet.serve.settings import Settings

# vLLM's choices for --max-lora-rank, and its default, below which nothing is gained.
RANKS = (16, 32, 64, 128, 256, 320, 512)
# With --max-cpu-loras the engine forgets the oldest adapter above it and reads its files anew in the middle
# of a step, where any error ends it. So: more than anybody registers, and no more are accepted.
MAX_CPU_LORAS = 1024


@dataclass
class Candidate:
    """One adapter of this start, with its copy or with why there is none."""

    name: str
    wish: Wish
    record: Record | None = None  # what the store remembers under the name
    staged: Staged | None = None
    error: AdapterError | None = None


def folder_wishes(root: Path) -> dict[str, Wish]:
    """Every sub-folder of the watched folder; hidden ones are somebody's half-made copies."""
    return {
        path.name: Wish(Source.FOLDER, Place(path, (root,)), str(path))
        for path in sorted(root.iterdir())
        if not path.name.startswith(".") and path.is_dir()
    }


class Boot:
    """The adapters of one start, from their copies to the catalogue.

    Fills in the arguments that depend on them: `--max-lora-rank` and `--max-cpu-loras`, where not given.

    Raises:
        StartError: the store or the watched folder can't be used.
    """

    def __init__(self, settings: Settings, args: Namespace, run_folder: Path) -> None:
        self._settings = settings
        self._args = args
        self._names = frozenset(args.served_model_name or [args.model])
        folder = settings.cache_dir / "adapters" / re.sub(r"[^\w.-]+", "_", min(self._names))
        self._store = open_store(settings.store_dir, folder, run_folder / "store")
        self._modalities: dict[str, str] = args.default_mm_loras or {}
        modules = [*(args.lora_modules or ())]
        modules += [Namespace(name=name, path=path) for name, path in self._modalities.items()]
        self._candidates = find_candidates(settings, modules, self._store)
        copy_candidates(self._candidates, self._store, settings.max_adapter_bytes)
        if args.max_lora_rank is None:
            args.max_lora_rank = choose_rank(c.staged.folder for c in self._candidates if c.staged)
        if args.max_cpu_loras is None:
            args.max_cpu_loras = max(MAX_CPU_LORAS, args.max_loras)

    def check(self, model_config: Any, catalogue: Catalogue) -> Setup:
        """Check every candidate against the base model and put it into the catalogue.

        Raises:
            StartError: one is refused and LORIKEET_STRICT_ADAPTERS is set.
        """
        settings, args = self._settings, self._args
        names = {*self._names, *model_names(args.model)}
        base = describe_base_model(model_config.hf_config, names, str(model_config.dtype))
        limits = Limits(args.max_lora_rank, settings.max_adapter_bytes, settings.strict_base)
        setup = Setup(self._store, base, limits, self._names, args.max_cpu_loras)
        check_candidates(self._candidates, setup, catalogue, settings, self._modalities)
        return setup


def find_candidates(settings: Settings, modules: Iterable[Any], store: Store) -> list[Candidate]:
    """What should be served; an argument goes before the folder, and both before what requests had added.

    Raises:
        StartError: the watched folder isn't there.
    """
    records = {record.name: record for record in store.load()}
    wishes = {r.name: _stored(r, store) for r in records.values() if r.source in (Source.API, Source.HUB)}
    if root := settings.adapters:
        try:
            wishes |= folder_wishes(root)
        except OSError as exc:
            raise StartError(
                f"LORIKEET_ADAPTERS={root} can't be read ({exc.strerror}); create it, and let user "
                f"{os.getuid()} of group {os.getgid()} read it"
            ) from exc
    for module in modules:
        if module.name in wishes:
            other = wishes[module.name].origin
            logger.warning("adapter '%s': --lora-modules goes before the one of %s", module.name, other)
        wishes[module.name] = Wish(Source.ARGUMENT, Place(Path(module.path).expanduser()), module.path)
    return [Candidate(name, wish, records.get(name)) for name, wish in wishes.items()]


def copy_candidates(candidates: list[Candidate], store: Store, max_bytes: int) -> None:
    """Copy each into the store's staging area; one that can't be is left with its error."""
    for candidate in candidates:
        try:
            candidate.staged = stage(store, candidate.name, candidate.wish.place, max_bytes)
        except AdapterError as exc:
            candidate.error = exc


def choose_rank(folders: Iterable[Path]) -> int:
    """The smallest limit that lets every adapter in, by the configurations in their folders."""
    configs = [read_config(folder)[0] for folder in folders]
    largest = max((config.max_rank for config in configs if config), default=1)
    return next((rank for rank in RANKS if rank >= largest), RANKS[-1])


def check_candidates(
    candidates: list[Candidate],
    setup: Setup,
    catalogue: Catalogue,
    settings: Settings,
    modalities: Collection[str],
) -> None:
    """Put each into the catalogue, as `ready` or `refused`.

    Raises:
        StartError: one is refused and LORIKEET_STRICT_ADAPTERS is set.
    """
    pinned = set(settings.pinned_names)
    for candidate in candidates:
        entry = _check(candidate, setup, catalogue, modalities)
        entry.pinned = entry.pinned or entry.name in pinned
        if entry.state is AdapterState.REFUSED and settings.strict_adapters:
            raise StartError(f"{entry.reason} (LORIKEET_STRICT_ADAPTERS is set)")
    versions = [entry.version for entry in catalogue.entries.values() if entry.version]
    setup.store.discard_all_but(version.digest for version in versions)


def _check(candidate: Candidate, setup: Setup, catalogue: Catalogue, modalities: Collection[str]) -> Entry:
    wish, record = candidate.wish, candidate.record
    entry = catalogue.entries[candidate.name] = Entry(candidate.name, wish.source, wish.origin)
    if record and record.source == wish.source:
        entry.pinned, entry.max_concurrency = record.pinned, record.max_concurrency
    try:
        if candidate.error:
            raise candidate.error
        check_name(candidate.name, setup.base_names, modalities)
        assert candidate.staged is not None
        _admit(entry, candidate.staged.digest, candidate.staged.folder, setup)
        assert entry.version is not None
        setup.store.keep(candidate.staged)
    except AdapterError as exc:
        if candidate.staged:
            setup.store.drop(candidate.staged)
        catalogue.note_refused(candidate.name, wish, exc)
        entry = catalogue.entries[candidate.name]
        if record and record.source == wish.source and setup.store.is_whole(record.digest):
            _fall_back(entry, record.digest, setup)
    return entry


def _admit(entry: Entry, digest: str, folder: Path, setup: Setup) -> None:
    """Make a checked copy the entry's version; raises AdapterRefusedError."""
    report = preflight(folder, setup.base, setup.limits)
    report.raise_if_refused(entry.name)
    entry.num_bytes, entry.warnings = report.num_bytes, report.warnings
    entry.version = Version(entry.name, digest, setup.store.path(digest), report.rank or 0)
    entry.enter(AdapterState.READY)
    for warning in report.warnings:
        logger.warning("adapter '%s': %s", entry.name, warning)


def _fall_back(entry: Entry, digest: str, setup: Setup) -> None:
    """Serve what the store has under the name: its last good content."""
    try:
        reason = entry.reason
        _admit(entry, digest, setup.store.path(digest), setup)
    except AdapterError:
        return  # the refusal that the entry shows is the newer one
    entry.reason = f"serves its last good content, since {reason}"
    logger.warning("adapter '%s' %s", entry.name, entry.reason)


def _stored(record: Record, store: Store) -> Wish:
    return Wish(Source(record.source), Place(store.path(record.digest), (store.folder,)), record.origin)
