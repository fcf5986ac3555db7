"""Block sizes worth trying for vLLM's own LoRA kernels."""

from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from lorikeet.kernels.config import Device, power_of_two_at_least
from lorikeet.kernels.tuner.cells import Cell
from lorikeet.kernels.tuner.estimate import MAX_REGISTERS


@dataclass(frozen=True)
class StockShrink:
    """The names are vLLM's, as they stand in its files."""

    block_m: int
    block_n: int
    block_k: int
    split_k: int
    num_warps: int = 4
    num_stages: int = 2
    group_size_m: int = 8
    num_ctas: int = 1
    max_nreg: int | None = None


@dataclass(frozen=True)
class StockExpand:
    block_m: int
    block_n: int
    block_k: int
    num_warps: int = 4
    num_stages: int = 2
    num_ctas: int = 1
    max_nreg: int | None = None


StockPair = tuple[StockShrink, StockExpand]
as_vllm_file_row = asdict


def default_shrink(bucket: int) -> StockShrink:
    """What vLLM 0.32.0 takes without a file; its limit of 128 tokens is one of our buckets."""
    few = bucket < 128
    return StockShrink(32, 16, 256 if few else 32, 64 if few else 8)


def default_expand(num_slices: int) -> StockExpand:
    return StockExpand(64, 64 if num_slices > 1 else 128, 32)


class StockSpace:
    """Candidates for vLLM's kernels. Shrink and expand don't depend on each other's block sizes there."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def default(self, cell: Cell) -> StockPair:
        return default_shrink(cell.bucket), default_expand(len(cell.shape.n))

    def firsts(self, cell: Cell) -> list[StockShrink]:
        shape, few = cell.shape, cell.bucket <= 128
        block_n = min(64, max(16, power_of_two_at_least(shape.rank)))
        found = {default_shrink(cell.bucket): None}
        for m, (k, stages), split in product(
            (16, 32) if few else (16, 32, 64),
            ((64, 2), (64, 4), (128, 2), (128, 4), (256, 2)),
            (8, 16, 32, 64) if few else (1, 4, 8),
        ):
            shared = (m + block_n) * k * 2 * stages
            if k * split <= 2 * shape.k and shared <= self.device.shared_bytes:
                found[StockShrink(m, block_n, k, split, 4, stages)] = None
        return list(found)

    def seconds(self, cell: Cell, first: Any) -> list[StockExpand]:
        inner = sorted({16, 32, 64} & {16, 32, min(64, max(16, power_of_two_at_least(cell.shape.rank)))})
        found = {self.second(cell, first): None}
        for m, n, k, warps in product(
            (16, 32, 64) if cell.bucket <= 512 else (32, 64, 128), (64, 128, 256), inner, (4, 8)
        ):
            wasteful = k > max(16, power_of_two_at_least(cell.shape.rank)) or k < min(32, cell.shape.rank)
            if not wasteful and m * n // (warps * 32) <= MAX_REGISTERS and (warps == 4 or m * n >= 8192):
                found[StockExpand(m, n, k, warps)] = None
        return list(found)

    def second(self, cell: Cell, first: Any) -> StockExpand:
        return default_expand(len(cell.shape.n))
