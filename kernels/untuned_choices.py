"""Tells the server how often operators ran untuned while serving: one small file a rank, rewritten whole.

Counting is the recorder's. A thread looks at the counts now and then, so that nothing is written on the way
of a request. A file holds totals by operator and cannot grow.
"""

import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from lorikeet.kernels.choice_recorder import ChoiceRecorder
from lorikeet.kernels.registry import label

INTERVAL_S = 5.0
PREFIX = "untuned-"
_logger = logging.getLogger("vllm.lorikeet")


class UntunedWatch:
    """Writes the totals of one rank to `folder`, and calls `on_new` once with each operator that is new."""

    def __init__(
        self,
        folder: Path | None,
        rank: int,
        recorder: ChoiceRecorder,
        on_new: Callable[[list[str]], None] | None = None,
    ) -> None:
        self._path = folder and folder / f"{PREFIX}{rank}.json"
        self._recorder, self._on_new = recorder, on_new
        self._written: dict[str, int] = {}
        self._known: set[str] = set()

    def start(self) -> None:
        threading.Thread(target=self._run, name="lorikeet-untuned", daemon=True).start()

    def look(self) -> None:
        """Write the totals if they have changed."""
        untuned = self._recorder.untuned("serving")
        if new := sorted(set(untuned) - self._known):
            self._known |= set(new)
            _logger.warning("%s ran untuned while serving", ", ".join(new))
            if self._on_new:
                self._on_new(new)
        totals = Counter[str]()
        for operator, calls in untuned.items():
            totals[label(operator)] += calls
        if self._path is not None and totals != self._written:
            scratch = self._path.with_suffix(".new")
            scratch.write_text(json.dumps(totals), encoding="utf-8")
            scratch.replace(self._path)
            self._written = dict(totals)

    def _run(self) -> None:
        while True:
            time.sleep(INTERVAL_S)
            try:
                self.look()
            except OSError as exc:  # the folder goes when the server ends
                _logger.debug("untuned choices are not reported any more: %s", exc)
                return


def read_totals(folder: Path) -> dict[str, int]:
    """Untuned choices by operator, of all ranks together."""
    totals = Counter[str]()
    for path in folder.glob(f"{PREFIX}*.json"):
        totals.update(json.loads(path.read_text(encoding="utf-8")))
    return dict(totals)
