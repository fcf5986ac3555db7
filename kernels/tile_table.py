"""The tile table: which rows each program of a LoRA kernel works on, built once a step.

Tokens are grouped by slot. A tile is up to `tile_size` tokens of one group, and one table row says
which: (slot, start, length), where `start` counts in sorted order. Rows past the last tile hold
slot -1, and a program that finds one has nothing to do. The grid is `max_tiles`, which depends on
sizes known when a CUDA graph is captured, not on the step.
"""

import numpy as np
import numpy.typing as npt

# Tokens of one tile, smallest first: one table each. A kernel's block_m must be one of them.
TILE_SIZES = (4, 16, 32, 64, 128)
TILE_COLUMNS = 3

IntArray = npt.NDArray[np.int32]


def max_tiles(num_tokens: int, num_slots: int, tile_size: int) -> int:
    """The most tiles that `num_tokens` tokens of at most `num_slots` groups can need."""
    num_groups = min(num_tokens, num_slots)
    return num_groups + (num_tokens - num_groups) // tile_size


def fill_tile_table(
    table: IntArray,  # [at least the number of tiles, 3], changed in place
    tile_size: int,
    slots: IntArray,  # [num_groups], each at least 0
    starts: IntArray,  # [num_groups], where the group starts in sorted order
    counts: IntArray,  # [num_groups], tokens of the group, each at least 1
) -> int:
    """Write the tiles of these groups, mark the rest of the table empty, and return their number."""
    tiles_per_group = -(-counts // tile_size)
    num_tiles = int(tiles_per_group.sum())
    group = np.repeat(np.arange(len(slots)), tiles_per_group)
    first_tile = np.cumsum(tiles_per_group) - tiles_per_group
    offset = (np.arange(num_tiles) - first_tile[group]) * tile_size
    table[:num_tiles, 0] = slots[group]
    table[:num_tiles, 1] = starts[group] + offset
    table[:num_tiles, 2] = np.minimum(counts[group] - offset, tile_size)
    table[num_tiles:, 0] = -1
    return num_tiles
