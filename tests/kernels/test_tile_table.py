"""The tile table against one built tile by tile."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorikeet.kernels.tile_table import TILE_SIZES, fill_tile_table, max_tiles


def brute_force(slots: list[int], starts: list[int], counts: list[int], tile_size: int) -> list[list[int]]:
    return [
        [slot, start + first, min(tile_size, count - first)]
        for slot, start, count in zip(slots, starts, counts, strict=True)
        for first in range(0, count, tile_size)
    ]


GROUPS = st.lists(st.tuples(st.integers(0, 127), st.integers(1, 300)), max_size=12, unique_by=lambda g: g[0])


@given(groups=GROUPS, first=st.integers(0, 50), tile_size=st.sampled_from(TILE_SIZES))
def test_every_tile(groups: list[tuple[int, int]], first: int, tile_size: int) -> None:
    slots = [slot for slot, _ in groups]
    counts = [count for _, count in groups]
    starts = [first + sum(counts[:i]) for i in range(len(counts))]
    expected = brute_force(slots, starts, counts, tile_size)
    bound = max_tiles(sum(counts), max(len(counts), 1), tile_size)
    table = np.full((bound + 3, 3), 77, dtype=np.int32)
    used = fill_tile_table(table, tile_size, *(np.array(a, dtype=np.int32) for a in (slots, starts, counts)))
    assert used == len(expected) <= bound
    assert table[:used].tolist() == expected
    assert (table[used:, 0] == -1).all(), "an old step's tiles stayed"


@pytest.mark.parametrize("tile_size", TILE_SIZES)
@pytest.mark.parametrize("num_tokens", [0, 1, 7, 16, 129])
@pytest.mark.parametrize("num_slots", [1, 3, 128])
def test_bound_is_reached(num_tokens: int, num_slots: int, tile_size: int) -> None:
    """The worst case: as many groups as there can be, all but one of a single token."""
    groups = min(num_tokens, num_slots)
    counts = [1] * (groups - 1) + [num_tokens - groups + 1] if groups else []
    worst = sum(-(-count // tile_size) for count in counts)
    assert worst == max_tiles(num_tokens, num_slots, tile_size)


@pytest.mark.parametrize("tile_size", TILE_SIZES)
def test_bound_grows_with_tokens(tile_size: int) -> None:
    """A graph captured for more tokens covers every step that is padded to it."""
    bounds = [max_tiles(num_tokens, 8, tile_size) for num_tokens in range(600)]
    assert bounds == sorted(bounds)
