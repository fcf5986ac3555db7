"""Candidates, and what they ask of a GPU against numbers computed by hand."""

from dataclasses import replace

import pytest
from tuned_samples import H200, HEADER, QKV

from lorikeet.kernels.config import TOKEN_BUCKETS, Device, ExpandConfig, ShrinkConfig
from lorikeet.kernels.shape import LayerShape
from lorikeet.kernels.tuned_file import Measured, read_measured, write_folder
from lorikeet.kernels.tuner import estimate
from lorikeet.kernels.tuner.cells import Cell, cells_of, spread_slots
from lorikeet.kernels.tuner.space import LoraSpace
from lorikeet.kernels.tuner.stock_space import StockSpace

SMALL_GPU = Device((8, 9), 101_376, "NVIDIA Small")
SHAPES = [
    QKV,
    replace(QKV, k=14336, n=(4096,), rank=64),
    LayerShape(3072, (16384,), 320, 8),
    LayerShape(77, (33,), 1, 1),
]
GEMV = ShrinkConfig("gemv", 4, 16, 1024, 1024, num_warps=8)
SWAP = ShrinkConfig("swap", 16, 64, 1024, 128, num_warps=4, num_stages=4)
TILED = ShrinkConfig("tiled", 64, 16, 1024, 64, num_warps=4, num_stages=3)
EXPAND = ExpandConfig("swap", 16, 256, 64, num_warps=4)


def test_registers_by_hand() -> None:
    # 16 x 1024 fp32 and 4 rows of 1024 half-registers, over 256 threads
    assert estimate.shrink_registers(GEMV, 3) == (16 * 1024 + 2048) // 256 == 72
    # sums 16 x 64, and 16 x 128 halves of x, over 128 threads
    assert estimate.shrink_registers(SWAP, 3) == (1024 + 1024) // 128 == 16
    # three slices' sums of 64 x 16, and 64 x 64 halves of x
    assert estimate.shrink_registers(TILED, 3) == (3 * 1024 + 2048) // 128 == 40
    # sums 16 x 256 and B 256 x 64 halves, half as much again for y and copies, sums of chunks 16 x 64
    assert estimate.expand_registers(EXPAND, 64) == (4096 + 8192 + 6144 + 1024) // 128 == 152
    assert estimate.expand_registers(EXPAND, 128) == (4096 + 2048 + 1024) // 128 == 56


def test_shared_memory_by_hand() -> None:
    assert estimate.shrink_shared_bytes(GEMV, 3) == 0
    assert estimate.shrink_shared_bytes(SWAP, 3) == (16 + 64) * 128 * 2 * 4 == 81_920
    assert estimate.shrink_shared_bytes(TILED, 3) == (64 + 3 * 16) * 64 * 2 * 3 == 43_008


def test_time_by_hand() -> None:
    cell = Cell(LayerShape(4096, (4096,), 16, 8), 16)
    config = ShrinkConfig("swap", 16, 16, 1024, 128)
    # 8 adapters' A and x once, 4 chunks of sums; 32 programs of 132 share the bandwidth
    moved = (8 * 16 * 4096 + 16 * 4096) * 2 + 4 * 16 * 4 * 16
    assert estimate.shrink_us(config, cell) == pytest.approx(2 + moved / (4.3e6 * 32 / 132))
    expand = ExpandConfig("swap", 16, 128, 16)
    # B and y once; each of 32 blocks of columns reads the sums, from the L2 cache; 256 programs fill the GPU
    moved = (8 * 16 * 4096 + 2 * 16 * 4096) * 2 + 4 * 16 * 4 * 16 * 32 / 2.5
    assert estimate.expand_us(expand, cell, 4) == pytest.approx(2 + moved / 4.3e6)


@pytest.mark.parametrize("device", [H200, SMALL_GPU], ids=str)
@pytest.mark.parametrize("bucket", TOKEN_BUCKETS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_candidates_fit_and_can_be_written(shape: LayerShape, bucket: int, device: Device, tmp_path) -> None:
    space, cell = LoraSpace(device), Cell(shape, bucket)
    firsts = space.firsts(cell)
    assert space.default(cell)[0] in firsts
    assert len(firsts) == len(set(firsts)) <= 28
    pairs = [(first, second) for first in firsts for second in space.seconds(cell, first)]
    for first, second in pairs:
        assert first == first.fit(len(shape.n), device.shared_bytes)
        assert second == second.fit(shape.rank, first.num_splits(shape.k), device.shared_bytes)
        assert first.pdl is second.pdl is (device.dependent_launch and bucket <= 128)
    assert space.default(cell) in pairs
    # One file for all: each pair as if for another number of slots.
    rows = {
        (replace(shape, num_slots=n), bucket): Measured(pair, 1.0, 1.0) for n, pair in enumerate(pairs, 1)
    }
    write_folder(tmp_path, {"gpu": device.name, "capability": "9.0", **HEADER}, rows)
    assert read_measured(tmp_path)[1] == rows


def test_decode_has_every_kernel_to_try() -> None:
    space, cell = LoraSpace(H200), Cell(QKV, 16)
    firsts = space.firsts(cell)
    assert {first.kernel for first in firsts} == {"gemv", "swap"}
    assert len({first.num_splits(QKV.k) for first in firsts}) >= 3
    assert {second.block_n for second in space.seconds(cell, firsts[0])} == {64, 128, 256}
    assert {first.kernel for first in space.firsts(Cell(QKV, 2048))} == {"tiled"}


def test_far_worse_estimates_are_left_out() -> None:
    """At 8192 tokens, sums of 16 tokens a tile would read A 64 times."""
    cell = Cell(QKV, 8192)
    space = LoraSpace(H200)
    best = min(estimate.shrink_us(first, cell) for first in space.firsts(cell))
    for first in space.firsts(cell)[1:]:
        assert estimate.shrink_us(first, cell) <= 2.5 * best


@pytest.mark.parametrize("bucket", TOKEN_BUCKETS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_stock_candidates_are_few_and_hold_the_default(shape: LayerShape, bucket: int) -> None:
    space, cell = StockSpace(H200), Cell(shape, bucket)
    firsts, default = space.firsts(cell), space.default(cell)
    assert default[0] in firsts
    assert default[1] in space.seconds(cell, firsts[0])
    assert 1 <= len(firsts) <= 48
    assert 1 <= len(space.seconds(cell, firsts[0])) <= 40


def test_cells_ascend_within_a_shape_and_decode_comes_first() -> None:
    cells = cells_of([(4096, (4096,)), (4096, (4096,))], [16, 64], [8, 1])
    assert len(cells) == len(set(cells)) == 4 * len(TOKEN_BUCKETS)
    for shape in {cell.shape for cell in cells}:
        assert [cell.bucket for cell in cells if cell.shape == shape] == list(TOKEN_BUCKETS)
    assert all(cell.bucket <= 32 for cell in cells[: 3 * 4])
    assert cells[0].shape.num_slots == 8


def test_layers_with_many_slices_are_cells_of_their_launches() -> None:
    assert {cell.shape.n for cell in cells_of([(64, (16, 16, 16, 32))], [8], [1])} == {(16, 16, 16), (32,)}


@pytest.mark.parametrize(("tokens", "slots"), [(1, 8), (8, 8), (40, 8), (3, 32)])
def test_every_slot_has_a_token_before_any_has_two(tokens: int, slots: int) -> None:
    spread = spread_slots(tokens, slots)
    assert len(spread) == tokens
    assert len(set(spread)) == min(tokens, slots)
    assert spread == spread_slots(tokens, slots)
