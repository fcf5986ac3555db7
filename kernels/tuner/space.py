"""Block sizes worth trying for one cell, for shrink and for expand.

Lists of values, less what the GPU has no room for and what moves far more bytes than another candidate.
"""

from itertools import product

from lorikeet.kernels.config import (
    MAX_PDL_TOKENS,
    Device,
    ExpandConfig,
    ShrinkConfig,
    even_chunk,
    power_of_two_at_least,
    rank_block,
)
from lorikeet.kernels.tuned import default_pair
from lorikeet.kernels.tuned_file import Pair
from lorikeet.kernels.tuner.cells import Cell
from lorikeet.kernels.tuner.estimate import (
    MAX_REGISTERS,
    expand_registers,
    expand_us,
    shrink_registers,
    shrink_shared_bytes,
    shrink_us,
)

# A candidate whose estimate is this many times the best one's is not measured. The estimate knows traffic
# and how many programs share it, nothing of latency, so it only sorts out what is far off.
MAX_TIMES_BEST = 2.5
MAX_SHRINKS = 28
MAX_EXPANDS = 12  # for each number of chunks that shrink leaves
MAX_CHUNKS = 32


class LoraSpace:
    """Candidates for our own kernels on one GPU."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def default(self, cell: Cell) -> Pair:
        return default_pair(cell.shape, cell.bucket, self.device)

    def firsts(self, cell: Cell) -> list[ShrinkConfig]:
        """Shrink's candidates, the default's among them, the lowest estimate first."""
        shape, num_slices = cell.shape, len(cell.shape.n)
        found = {self.default(cell)[0]: None}
        for config in _shrinks(cell, self._pdl(cell)):
            fitted = config.fit(num_slices, self.device.shared_bytes)
            if (
                fitted.num_splits(shape.k) <= MAX_CHUNKS
                and shrink_registers(fitted, num_slices) <= MAX_REGISTERS
                and shrink_shared_bytes(fitted, num_slices) <= self.device.shared_bytes
            ):
                found[fitted] = None
        return _near_best({config: shrink_us(config, cell) for config in found}, MAX_SHRINKS)

    def seconds(self, cell: Cell, first: ShrinkConfig) -> list[ExpandConfig]:
        """Expand's candidates after `first`."""
        shape, num_splits = cell.shape, first.num_splits(cell.shape.k)
        found = {self.second(cell, first): None}
        for config in _expands(cell, self._pdl(cell)):
            fitted = config.fit(shape.rank, num_splits, self.device.shared_bytes)
            if expand_registers(fitted, shape.rank) <= MAX_REGISTERS:
                found[fitted] = None
        return _near_best({config: expand_us(config, cell, num_splits) for config in found}, MAX_EXPANDS)

    def second(self, cell: Cell, first: ShrinkConfig) -> ExpandConfig:
        """The default expand after `first`."""
        expand = self.default(cell)[1]
        return expand.fit(cell.shape.rank, first.num_splits(cell.shape.k), self.device.shared_bytes)

    def _pdl(self, cell: Cell) -> bool:
        """Not a matter of taste: measured behind the layer's own product, which is not done here."""
        return self.device.dependent_launch and cell.bucket <= MAX_PDL_TOKENS


def _near_best(estimates: dict[object, float], limit: int) -> list:  # type: ignore[type-arg]
    """The first candidate, which is the default, and those near the best estimate, best first."""
    default, *others = estimates
    best = min(estimates.values())
    near = sorted((c for c in others if estimates[c] <= MAX_TIMES_BEST * best), key=lambda c: estimates[c])
    return [default, *near[: limit - 1]]


def _shrinks(cell: Cell, pdl: bool) -> list[ShrinkConfig]:
    shape, tokens = cell.shape, cell.bucket
    block_r = rank_block(shape.rank)
    found = []
    if tokens <= 64 and shape.rank <= 64:
        blocks = {min(power_of_two_at_least(shape.rank), 16), min(power_of_two_at_least(shape.rank), 8)}
        for gemv_r, chunk, warps in product(sorted(blocks), (256, 512, 1024, 2048), (4, 8)):
            if chunk <= power_of_two_at_least(shape.k):
                found.append(ShrinkConfig("gemv", 4, gemv_r, chunk, chunk, warps, pdl=pdl))
    if tokens <= 512:
        block_ms = (16,) if tokens <= 64 else (16, 32)
        block_rs = {block_r, 32} if shape.rank >= 32 else {block_r}
        for block_m, r, block_k, wanted, stages in product(
            block_ms, sorted(block_rs), (128, 256), (256, 512, 1024, 2048, 4096), (3, 5)
        ):
            chunk = even_chunk(shape.k, wanted, block_k)
            found.append(ShrinkConfig("swap", block_m, r, chunk, block_k, 4, stages, pdl=pdl))
    if tokens >= 128:
        for block_m, block_k, wanted, warps, stages in product(
            (32, 64, 128), (64, 128), (1024, 2048, 4096, shape.k), (4, 8), (3, 4)
        ):
            if warps == 8 and block_m < 128:
                continue
            chunk = even_chunk(shape.k, wanted, block_k)
            found.append(ShrinkConfig("tiled", block_m, block_r, chunk, block_k, warps, stages, pdl=pdl))
    return found


def _expands(cell: Cell, pdl: bool) -> list[ExpandConfig]:
    rank, tokens = cell.shape.rank, cell.bucket
    block_r = rank_block(rank)
    one_pass = rank <= block_r
    found = []
    if tokens <= 512:
        block_rs = (block_r,) if one_pass else (64, 128)
        stages = (1,) if one_pass else (3, 4)
        for block_n, r, warps, num_stages in product((64, 128, 256), block_rs, (4, 8), stages):
            found.append(ExpandConfig("swap", 16, block_n, r, 1, warps, num_stages, pdl))
    if tokens >= 128:
        block_ms = (16, 32) if tokens <= 256 else (32, 64) if tokens <= 512 else (32, 64, 128)
        for block_m, block_n, blocks, warps in product(
            block_ms, (64, 128, 256), (1, 4, 8) if one_pass else (1,), (4, 8)
        ):
            found.append(ExpandConfig("tiled", block_m, block_n, block_r, blocks, warps, 3, pdl))
    return found
