"""Compile candidates ahead in parallel processes; Triton's cache on disk hands them to the one that measures.

Compiling takes a hundred times longer than measuring, and Triton compiles on one core.
"""

import multiprocessing
import signal
import time
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from lorikeet.kernels.parent import end_with_parent

# A candidate that takes longer is left out: what compiles for so long spills registers.
TIMEOUT_S = 90.0


@dataclass(frozen=True)
class Task:
    """One kernel of one candidate. Tasks of equal `variant` compile to the same."""

    variant: Hashable
    arguments: tuple[Any, ...]


Compile = Callable[..., None]  # compile(*task.arguments); raises where it cannot


@dataclass
class Precompiler:
    """Compiles tasks in `num_workers` processes, each variant once."""

    compile: Compile
    num_workers: int
    timeout_s: float = TIMEOUT_S
    _futures: dict[Hashable, "Future[None]"] = field(default_factory=dict)
    _pool: ProcessPoolExecutor | None = None

    def submit(self, tasks: Iterable[Task]) -> None:
        """Start compiling what was not asked for before."""
        for task in tasks:
            if task.variant in self._futures:
                continue
            try:
                self._futures[task.variant] = self._running_pool().submit(self.compile, *task.arguments)
            except BrokenProcessPool:
                self.close()
                self._futures[task.variant] = self._running_pool().submit(self.compile, *task.arguments)

    def failed(self, tasks: Iterable[Task]) -> list[Task]:
        """Those of the tasks that cannot be compiled, once all have ended or their time is over."""
        deadline = time.monotonic() + self.timeout_s
        failed = []
        for task in tasks:
            try:
                self._futures[task.variant].result(max(0.0, deadline - time.monotonic()))
            except Exception:  # whatever a compiler raises, and the time
                failed.append(task)
        return failed

    def close(self) -> None:
        """End the processes at once, also in the middle of a kernel."""
        if self._pool is None:
            return
        processes = list((self._pool._processes or {}).values())
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            with suppress(OSError, ValueError):
                process.kill()
        self._pool = None

    def _running_pool(self) -> ProcessPoolExecutor:
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(
                self.num_workers, mp_context=context, initializer=_prepare_worker
            )
        return self._pool


def _prepare_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group; the parent ends us
    end_with_parent()
