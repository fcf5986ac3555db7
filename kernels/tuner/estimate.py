"""What block sizes ask of a GPU, by counting: registers, shared memory, and bytes that move.

Registers are a thread's 32-bit ones for what a program holds at once; shared memory is what the pipeline's
stages take. Both are lower than what a compiler makes of them, so they only sort out the hopeless.
"""

from lorikeet.kernels.config import ExpandConfig, ShrinkConfig
from lorikeet.kernels.tile_table import max_tiles
from lorikeet.kernels.tuner.cells import Cell

MAX_REGISTERS = 220  # of 255, less what addresses and loops take
BYTES_PER_US = 4.3e6  # a large copy on an H200, 2026-10-28; only ratios matter here
LATENCY_US = 2.0  # of the shortest of these kernels on an H200, 2026-11-30
PROCESSORS = 132  # fewer programs than this reach a part of the bandwidth
L2_TIMES = 2.5  # how much faster what another program has just read comes from the L2 cache
_WARP = 32
_ELEMENT = 2  # bytes of fp16 and bf16


def shrink_registers(config: ShrinkConfig, num_slices: int) -> int:
    threads = config.num_warps * _WARP
    if config.kernel == "gemv":  # the chunk of A in fp32, and four rows of x
        return (config.block_r * config.chunk_k + 4 * config.chunk_k // 2) // threads
    sums = config.block_m * config.block_r * (num_slices if config.kernel == "tiled" else 1)
    return (sums + config.block_m * config.block_k // 2) // threads


def shrink_shared_bytes(config: ShrinkConfig, num_slices: int) -> int:
    if config.kernel == "gemv":
        return 0
    slices = num_slices if config.kernel == "tiled" else 1
    return (config.block_m + slices * config.block_r) * config.block_k * _ELEMENT * config.num_stages


def expand_registers(config: ExpandConfig, rank: int) -> int:
    threads = config.num_warps * _WARP
    held = config.block_m * config.block_n  # sums, and y as it was
    if rank <= config.block_r:  # B is loaded before the partial sums are there
        held += config.block_n * config.block_r // 2
    return (held + held // 2 + config.block_m * config.block_r) // threads


def shrink_us(config: ShrinkConfig, cell: Cell) -> float:
    """Bytes of A, x and partial sums over the bandwidth that so many programs reach."""
    shape, tokens = cell.shape, max(cell.token_counts)
    slices, splits = len(shape.n), config.num_splits(shape.k)
    groups = min(tokens, shape.num_slots)
    tiles = _tiles(tokens, groups, config.block_m)
    blocks = -(-shape.rank // config.block_r) * (1 if config.kernel == "tiled" else slices)
    once = groups * slices * shape.rank * shape.k + tokens * shape.k
    again = (tiles - groups) * slices * shape.rank * shape.k + (blocks - 1) * tokens * shape.k
    partial = 4 * tokens * slices * splits * shape.rank
    return _us(once * _ELEMENT + partial, again * _ELEMENT, tiles * blocks * splits)


def expand_us(config: ExpandConfig, cell: Cell, num_splits: int) -> float:
    """Bytes of B, y and partial sums, which every block of columns reads, likewise."""
    shape, tokens = cell.shape, max(cell.token_counts)
    groups = min(tokens, shape.num_slots)
    tiles = _tiles(tokens, groups, config.block_m)
    width = sum(shape.n)
    blocks = sum(-(-n // (config.block_n * config.blocks)) for n in shape.n)
    once = groups * shape.rank * width + 2 * tokens * width
    again = (tiles - groups) * shape.rank * width
    partial = 4 * tokens * num_splits * shape.rank * blocks
    return _us(once * _ELEMENT, again * _ELEMENT + partial, tiles * blocks)


def _tiles(tokens: int, groups: int, block_m: int) -> int:
    """Tiles with tokens, where the groups are about equal."""
    per_group = -(-tokens // groups)
    return min(groups * -(-per_group // block_m), max_tiles(tokens, groups, block_m))


def _us(first_bytes: float, again_bytes: float, programs: int) -> float:
    reached = BYTES_PER_US * min(1.0, programs / PROCESSORS)
    return LATENCY_US + (first_bytes + again_bytes / L2_TIMES) / reached
