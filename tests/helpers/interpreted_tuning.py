"""The tuner's real kernels in Triton's interpreter, with a clock that is made up; for child processes."""

import os
from collections.abc import Callable, Sequence

from lorikeet.kernels.config import Device
from lorikeet.kernels.tuner.measurer import Tools

TINY_GPU = Device((8, 0), 166_912, "NVIDIA Made Up")  # no dependent launch: the interpreter has none


def interpreted_tools() -> Tools:
    """Our kernels, run and checked for real."""
    os.environ["TRITON_INTERPRET"] = "1"
    from lorikeet.kernels.tuner.bench import GpuBench, LoraKernels
    from lorikeet.kernels.tuner.space import LoraSpace
    from lorikeet.kernels.tuner.tools import header

    bench = GpuBench(LoraKernels(), _made_up_clock, device="cpu", max_copies=2)
    return Tools(LoraSpace(TINY_GPU), bench, header(TINY_GPU, "lorikeet"))


def _made_up_clock(launches: Sequence[Callable[[], None]]) -> Callable[[], float]:
    """Narrow blocks are fast, which the default's are not."""
    _, expand = launches[0].args[1]  # type: ignore[attr-defined]
    return lambda: expand.block_n / 16


def nothing_to_compile(*_: object) -> None:
    """The interpreter compiles nothing."""
