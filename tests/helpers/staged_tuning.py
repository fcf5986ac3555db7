"""A measuring process and a compiler in which what a GPU could do is staged.

Child processes import this by its name, which they cannot do with a test's own module.
"""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from tuned_samples import H200, QKV

from lorikeet.kernels.tuner.cells import Cell
from lorikeet.kernels.tuner.measurer import Tools
from lorikeet.kernels.tuner.search import AnyPair, CandidateError
from lorikeet.kernels.tuner.space import LoraSpace

HEADER = {"gpu": H200.name, "device": asdict(H200)}
SPACE = LoraSpace(H200)
CELL, OTHER = Cell(QKV, 16), Cell(QKV, 4)


def nth(number: int) -> AnyPair:
    first = SPACE.firsts(CELL)[number]
    return first, SPACE.second(CELL, first)


@dataclass
class StagedBench:
    """What happens to some candidates; the others take 10 µs, the fast one 5."""

    fast: AnyPair
    staged: dict[AnyPair, str]

    def prepare(self, cell: Cell, pair: AnyPair) -> Callable[[], float]:
        match self.staged.get(pair):
            case "hangs":
                time.sleep(600)
            case "crashes":
                os.kill(os.getpid(), signal.SIGKILL)
            case "spoils the GPU":
                raise RuntimeError("CUDA error: an illegal memory access was encountered")
            case "out of memory":
                raise CandidateError("out of memory")
        return lambda: 5.0 if pair == self.fast else 10.0

    def error(self, cell: Cell, pair: AnyPair) -> float:
        return 0.0


@dataclass(frozen=True)
class MakeTools:
    """Runs in the child, so it is a plain object that can be sent there."""

    fast: AnyPair
    staged: tuple[tuple[AnyPair, str], ...] = ()

    def __call__(self) -> Tools:
        return Tools(SPACE, StagedBench(self.fast, dict(self.staged)), HEADER)


def broken_tools() -> Tools:
    raise RuntimeError("no NVIDIA GPU here")


def staged_compile(what: str, folder: Path) -> None:
    (folder / f"{what}-{os.getpid()}-{time.monotonic_ns()}").touch()
    if what == "hang":
        time.sleep(600)
    if what == "crash":
        os._exit(11)
    if what.startswith("fail"):
        raise ValueError("out of registers")
