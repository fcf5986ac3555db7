"""Compile one of vLLM's LoRA kernels for one candidate, without launching it."""

from collections.abc import Sequence
from typing import Any

from lorikeet.kernels.shape import LayerShape
from lorikeet.kernels.tuner.cells import Cell
from lorikeet.kernels.tuner.compile_lora import without_launching
from lorikeet.kernels.tuner.precompile import Task
from lorikeet.kernels.tuner.search import AnyPair
from lorikeet.kernels.tuner.stock_space import StockExpand, StockShrink, StockSpace


def stock_tasks(
    space: StockSpace, cell: Cell, pairs: Sequence[AnyPair] | None
) -> dict[Task, list[tuple[Any, ...]]]:
    """What to compile for the cell or those pairs of it, and the parts of pairs that need it."""
    if pairs is None:
        firsts = space.firsts(cell)
        whole = [(first, second) for first in firsts for second in space.seconds(cell, first)]
    else:
        firsts, whole = [first for first, _ in pairs], [*pairs]
    found: dict[Task, list[tuple[Any, ...]]] = {}
    for tokens in cell.token_counts:
        for first in dict.fromkeys(firsts):
            found.setdefault(_task(cell.shape, tokens, first, None), []).append((first,))
        for first, second in whole:
            found.setdefault(_task(cell.shape, tokens, None, second), []).append((first, second))
    return found


def _task(shape: LayerShape, tokens: int, first: StockShrink | None, second: StockExpand | None) -> Task:
    # vLLM's kernels are compiled anew for 1 token, for multiples of 16 and for the rest.
    kind = "one" if tokens == 1 else tokens % 16 == 0
    config: Any = first or second
    sizes = (shape.k if first else None, shape.n, shape.rank, shape.dtype)
    return Task((kind, sizes, config), (shape, tokens, first, second))


def compile_stock(
    shape: LayerShape, tokens: int, first: StockShrink | None, second: StockExpand | None
) -> None:
    """vLLM's shrink with `first`, or its expand with `second`; the operator's own Python code launches it."""
    import torch
    from vllm.lora.ops.triton_ops import LoRAKernelMeta, lora_expand_op, lora_shrink_op

    from lorikeet.kernels.tuner.stock_kernels import block_sizes

    dtype = getattr(torch, shape.dtype)
    meta = LoRAKernelMeta.make(1, tokens, device="cpu")
    meta.no_lora_flag_cpu.fill_(False)
    args = meta.meta_args(tokens, False)
    buffer = torch.empty(len(shape.n), tokens, shape.rank, dtype=torch.float32)
    with without_launching(), block_sizes(first, second):
        if first is not None:
            x = torch.empty(tokens, shape.k, dtype=dtype)
            lora_a = [torch.empty(1, 1, shape.rank, shape.k, dtype=dtype) for _ in shape.n]
            lora_shrink_op._lora_shrink(x, lora_a, buffer, *args, 1.0)
        else:
            y = torch.empty(tokens, sum(shape.n), dtype=dtype)
            lora_b = [torch.empty(1, 1, width, shape.rank, dtype=dtype) for width in shape.n]
            lora_expand_op._lora_expand(buffer, lora_b, y, *args, 0, True)
