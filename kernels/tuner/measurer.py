"""The process that measures, watched: a candidate that hangs or ends it is left out and the rest goes on.

Nothing in a process can stop a kernel that never ends, or repair its GPU context after a bad access. So
measuring is a child's work, and the parent kills the child that says nothing for too long.
"""

import multiprocessing
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from lorikeet.kernels.parent import end_with_parent
from lorikeet.kernels.tuner.cells import Cell
from lorikeet.kernels.tuner.search import AnyPair, Bench, CellError, Outcome, Space, search

START_TIMEOUT_S = 180.0  # importing PyTorch, and the first use of the GPU
STEP_TIMEOUT_S = 60.0  # from one candidate to the next; the slowest take some ms, or seconds to compile
MAX_RESTARTS = 4  # for one cell


@dataclass(frozen=True)
class Tools:
    """What the child measures with, made in the child."""

    space: Space
    bench: Bench
    header: dict[str, Any]  # the GPU and the versions, as they go into files


MakeTools = Callable[[], Tools]


class MeasurerError(RuntimeError):
    """The measuring process does not start."""


class Measurer:
    """Measures cells in a child process; use it in a `with` block."""

    def __init__(self, make_tools: MakeTools, step_timeout_s: float = STEP_TIMEOUT_S) -> None:
        self._make_tools, self._step_timeout_s = make_tools, step_timeout_s
        self._child: BaseProcess | None = None
        self._connection: Connection | None = None
        self.header: dict[str, Any] = {}
        self.num_restarts = 0

    def __enter__(self) -> "Measurer":
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._kill()

    def measure(
        self, cell: Cell, pairs: Sequence[AnyPair] | None = None, excluded: Sequence[tuple[Any, ...]] = ()
    ) -> Outcome:
        """`search` in the child.

        Raises:
            CellError: the default fails, or too many candidates end the child.
        """
        excluded, lost = [*excluded], 0
        for _ in range(MAX_RESTARTS + 1):
            if self._child is None:
                self._start()
            outcome, culprit = self._ask(cell, pairs, excluded)
            if outcome is not None:
                if lost:
                    outcome.failed["hung or crashed"] = lost
                return outcome
            self._kill()
            self.num_restarts += 1
            if culprit is not None:
                excluded.append(culprit)
                lost += 1
        raise CellError(f"{cell}: {lost} candidates hung or ended the process")

    def _ask(
        self, cell: Cell, pairs: Sequence[AnyPair] | None, excluded: Sequence[tuple[Any, ...]]
    ) -> tuple[Outcome | None, AnyPair | None]:
        """The outcome, or None and the pair that was tried last when the child fell silent or ended."""
        assert self._connection is not None
        culprit = None
        try:
            self._connection.send((cell, pairs, excluded))
            while self._connection.poll(self._step_timeout_s):
                kind, value = self._connection.recv()
                if kind == "outcome":
                    return value, None
                if kind == "error":
                    raise CellError(value)
                culprit = value
        except (EOFError, ConnectionError):
            pass
        return None, culprit

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._child = context.Process(target=_measure, args=(theirs, self._make_tools), daemon=True)
        self._child.start()
        theirs.close()
        try:
            if self._connection.poll(START_TIMEOUT_S):
                answer = self._connection.recv()
                if not isinstance(answer, str):
                    self.header = answer
                    return
                problem = answer
            else:
                problem = f"nothing from the measuring process within {START_TIMEOUT_S:.0f} s"
        except (EOFError, ConnectionError):
            problem = "the measuring process ended at its start; see its output above"
        self._kill()
        raise MeasurerError(problem)

    def _kill(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.join()
        if self._connection is not None:
            self._connection.close()
        self._child = self._connection = None


def _measure(connection: Connection, make_tools: MakeTools) -> None:
    """The child: answers each cell with what was tried, and the outcome."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group; the parent ends us
    end_with_parent()
    try:
        tools = make_tools()
    except RuntimeError as exc:
        connection.send(str(exc))
        return
    connection.send(tools.header)
    while True:
        try:
            cell, pairs, excluded = connection.recv()
        except EOFError:
            return
        try:
            outcome = search(
                cell, tools.space, tools.bench, pairs, excluded, lambda pair: connection.send(("try", pair))
            )
            connection.send(("outcome", outcome))
        except CellError as exc:
            connection.send(("error", str(exc)))
