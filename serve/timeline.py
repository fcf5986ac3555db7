"""The start-up timeline: how long each phase took, from the journal lines of all processes."""

import json
import os
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

API = "api"  # the rank label of this process's own phases
OTHER = "other"  # wall time in no phase
FIRST_RANK = "0"  # phases of other ranks run beside this one's and are not part of the sum


@dataclass
class OpenPhase:
    """A phase that has begun; `nested_s` is what phases inside it took, which is not its own time."""

    name: str
    begin_mono: float
    nested_s: float = 0.0


@dataclass(frozen=True)
class PhaseTime:
    """Own seconds of one phase on one rank, so far if it is still running."""

    phase: str
    rank: str
    seconds: float
    running: bool


class Timeline:
    """Follows the journal files in `folder`.

    A phase's seconds leave out the phases inside it, so that the seconds of this process, of rank 0 and of
    `other` add up to the time since `start_mono` (a reading of the monotonic clock, which the host's
    processes share).
    """

    def __init__(self, folder: Path, start_mono: float) -> None:
        self.start_mono = start_mono
        self.end_mono: float | None = None
        self.failure: str | None = None  # the first error that a phase or a process ended with
        self.decisions: list[dict[str, Any]] = []
        self.folder = folder
        self._offsets: dict[Path, int] = defaultdict(int)
        self._open: dict[str, list[OpenPhase]] = defaultdict(list)  # rank → stack
        self._own_s: dict[tuple[str, str], float] = {}  # (phase, rank) → seconds, in order of first end

    @property
    def seconds(self) -> float:
        """Seconds from process start to ready, or to now."""
        return (self.end_mono or time.monotonic()) - self.start_mono

    def finish(self) -> None:
        """Ready: later lines (a reloaded model, say) no longer belong to the start."""
        self.refresh()
        self.end_mono = time.monotonic()

    def current_phase(self) -> str:
        """The innermost phase running on rank 0, else in this process, else `other`."""
        for rank in (FIRST_RANK, API):
            if self._open[rank]:
                return self._open[rank][-1].name
        return OTHER

    def phases(self) -> list[PhaseTime]:
        """All phases so far, finished ones first, `other` last."""
        now = self.end_mono or time.monotonic()
        own_s = dict(self._own_s)
        running = set()
        for rank, stack in self._open.items():
            inner_s = 0.0
            for phase in reversed(stack):
                key = (phase.name, rank)
                own_s[key] = own_s.get(key, 0.0) + now - phase.begin_mono - phase.nested_s - inner_s
                inner_s = now - phase.begin_mono
                running.add(key)
        counted_s = sum(seconds for (_, rank), seconds in own_s.items() if rank in (API, FIRST_RANK))
        times = [PhaseTime(name, rank, s, (name, rank) in running) for (name, rank), s in own_s.items()]
        return [*times, PhaseTime(OTHER, API, max(0.0, now - self.start_mono - counted_s), False)]

    def refresh(self) -> None:
        """Read what the journals gained since the last call; half a line waits for the next."""
        if self.end_mono is not None:
            return
        lines = []
        for path in self.folder.glob("*.jsonl"):
            with path.open("rb") as file:
                file.seek(self._offsets[path])
                text = file.read()
            whole = text[: text.rfind(b"\n") + 1]
            self._offsets[path] += len(whole)
            lines += [json.loads(line) for line in whole.splitlines()]
        for line in sorted(lines, key=lambda line: float(line["mono"])):
            self._take(line)

    def _take(self, line: dict[str, Any]) -> None:
        rank = API if line["process"] == "api" else str(line["rank"] or 0)
        if line["event"] == "begin":
            self._open[rank].append(OpenPhase(line["phase"], line["mono"]))
        elif line["event"] == "end":
            self._end(line["phase"], rank, line["mono"])
        else:
            self.decisions.append(line)
        if self.failure is None:
            self.failure = line["detail"].get("error")

    def _end(self, name: str, rank: str, mono: float) -> None:
        if not self._opened(name, rank):
            # Begun by this process, ended by the worker that it started: the first rank's arrival counts.
            if rank != FIRST_RANK or not self._opened(name, API):
                return
            rank = API
        phase = self._open[rank].pop()
        took_s = mono - phase.begin_mono
        self._own_s[name, rank] = self._own_s.get((name, rank), 0.0) + took_s - phase.nested_s
        if self._open[rank]:
            self._open[rank][-1].nested_s += took_s

    def _opened(self, name: str, rank: str) -> bool:
        return bool(self._open[rank]) and self._open[rank][-1].name == name


def process_start_mono() -> float:
    """When this process was started, on the monotonic clock (Linux: /proc/self/stat, to 10 ms)."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    started_s = int(fields[19]) / os.sysconf("SC_CLK_TCK")  # field 22, since boot
    return time.monotonic() - (time.clock_gettime(time.CLOCK_BOOTTIME) - started_s)
