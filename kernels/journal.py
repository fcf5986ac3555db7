"""The start-up journal: one file of JSON lines a process, appended while it starts.

One line: {"time": wall seconds, "mono": monotonic seconds, "pid", "process": "api|engine|worker",
"rank", "event": "begin|end|decision|note", "phase", "detail": {}}. The monotonic clock is the host's,
so lines of several processes on one host can be ordered by it. Reading them is `serve/timeline.py`.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

STARTED = "started"  # a file of this name in the folder says that the server was ready once

Process = Literal["api", "engine", "worker"]
Event = Literal["begin", "end", "decision", "note"]


class Journal:
    """Appends this process's lines to a file of its own in `folder`; without a folder it writes nothing."""

    def __init__(self, folder: Path | None, process: Process, rank: int | None = None) -> None:
        self._process = process
        self._rank = rank
        self._path = folder and folder / f"{process}-{'' if rank is None else rank}-{os.getpid()}.jsonl"

    def write(self, event: Event, phase: str, *, mono: float | None = None, **detail: Any) -> None:
        """Append one line, dated now or at `mono`, an earlier reading of the monotonic clock."""
        if self._path is None:
            return
        line = {
            "time": time.time(),
            "mono": time.monotonic() if mono is None else mono,
            "pid": os.getpid(),
            "process": self._process,
            "rank": self._rank,
            "event": event,
            "phase": phase,
            "detail": detail,
        }
        # One write() of a short line to a file opened for appending: readers never see two lines mixed.
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, default=str) + "\n")

    @contextmanager
    def phase(self, name: str, **detail: Any) -> Iterator[None]:
        """Record `name` from here to the end of the block; an exception is recorded and passes on."""
        self.write("begin", name, **detail)
        try:
            yield
        except BaseException as exc:
            self.write("end", name, error=f"{type(exc).__name__}: {exc}")
            raise
        self.write("end", name)
