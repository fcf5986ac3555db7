"""Compile one of our kernels for one candidate, without launching it."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from lorikeet.kernels.config import ExpandConfig, ShrinkConfig
from lorikeet.kernels.shape import LayerShape
from lorikeet.kernels.tuner.cells import Cell
from lorikeet.kernels.tuner.precompile import Task
from lorikeet.kernels.tuner.search import AnyPair
from lorikeet.kernels.tuner.space import LoraSpace


def lora_tasks(
    space: LoraSpace, cell: Cell, pairs: Sequence[AnyPair] | None
) -> dict[Task, list[tuple[Any, ...]]]:
    """What to compile for the cell or those pairs of it, and the parts of pairs that need it."""
    found: dict[Task, list[tuple[Any, ...]]] = {}
    if pairs is None:
        firsts = [(first, space.seconds(cell, first)) for first in space.firsts(cell)]
    else:
        firsts = [(first, [second]) for first, second in pairs]
    for first, seconds in firsts:
        found.setdefault(_task(cell.shape, first, None), []).append((first,))
        for second in seconds:
            found.setdefault(_task(cell.shape, first, second), []).append((first, second))
    return found


def _task(shape: LayerShape, first: ShrinkConfig, second: ExpandConfig | None) -> Task:
    """Shapes whose sizes are multiples of 16 alike share what is compiled."""
    aligned = tuple(size % 16 == 0 for size in (shape.k, *shape.n))
    rest: tuple[Any, ...]
    if second is None:
        # How far a program goes along K is an argument, but for the gemv kernel.
        is_gemv = first.kernel == "gemv"
        step, chunk = (first.chunk_k, first.chunk_k) if is_gemv else (first.block_k, first.chunk_k % 16)
        rest = (shape.k % step == 0, chunk)
        config: Any = (first.kernel, first.block_m, first.block_r, first.block_k)
        config += (first.num_warps, first.num_stages, first.pdl)
    else:
        rest, config = (first.num_splits(shape.k), first.kernel == "gemv"), second
    return Task((len(shape.n), shape.rank, shape.dtype, aligned, config, rest), (shape, first, second))


def compile_kernel(shape: LayerShape, first: ShrinkConfig, second: ExpandConfig | None) -> None:
    """Shrink's kernel of `first`, or expand's of `second` after `first`.

    Needs the GPU only to be there: Triton asks it for its capability.
    """
    import torch

    from lorikeet.kernels import lora_linear

    dtype = getattr(torch, shape.dtype)
    lora_a = [torch.empty(1, 1, shape.rank, shape.k, dtype=dtype) for _ in shape.n]
    lora_b = [torch.empty(1, 1, width, shape.rank, dtype=dtype) for width in shape.n]
    x, y = torch.empty(1, shape.k, dtype=dtype), torch.empty(1, sum(shape.n), dtype=dtype)
    table, rows = torch.empty(1, 3, dtype=torch.int32), torch.empty(1, dtype=torch.int32)
    num_splits = first.num_splits(shape.k)
    partial = torch.empty(
        1, len(shape.n), num_splits, shape.rank, dtype=lora_linear.partial_dtype(first, shape.k, dtype)
    )
    with without_launching():
        if second is None:
            lora_linear.SHRINK[first.kernel](x, lora_a, partial, table, rows, first)
        else:
            lora_linear.EXPAND[second.kernel](y, partial, lora_b, table, rows, True, second)


@contextmanager
def without_launching() -> Iterator[None]:
    """Triton compiles into its cache and stops before the launch."""
    from triton.runtime.jit import JITFunction

    run: Callable[..., Any] = JITFunction.run

    def compile_only(self: Any, *args: Any, **kwargs: Any) -> Any:
        return run(self, *args, **{**kwargs, "warmup": True})

    JITFunction.run = compile_only
    try:
        yield
    finally:
        JITFunction.run = run


def num_workers() -> int:
    """One process for each core but the one that measures."""
    return max(1, len(os.sched_getaffinity(0)) - 1)
