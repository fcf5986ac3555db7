"""lora_expand for prefill: a tile of tokens times several blocks of B's columns, partials summed once."""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

from lorikeet.kernels.config import ExpandConfig
from lorikeet.kernels.device import column_block, pick, sum_splits, wait_for_previous_kernel
from lorikeet.kernels.tile_table import max_tiles


@triton.jit
def _lora_expand_tiled_kernel(
    y_ptr, partial_ptr, b0_ptr, b1_ptr, b2_ptr, tiles_ptr, rows_ptr,
    N0, N1, N2, y_row_stride,
    S: tl.constexpr, R: tl.constexpr, SPLITS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_R: tl.constexpr, BLOCKS: tl.constexpr,
    STAGES: tl.constexpr, ADD_INPUTS: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    tile_ptr = tiles_ptr + tl.program_id(1) * 3
    slot = tl.load(tile_ptr)
    if slot >= 0:
        start = tl.load(tile_ptr + 1)
        length = tl.load(tile_ptr + 2)
        slice_id, block, N, first_column = column_block(tl.program_id(0), N0, N1, N2, BLOCK_N * BLOCKS)
        m = tl.arange(0, BLOCK_M)
        in_tile = m < length
        rows = tl.load(rows_ptr + start + m, mask=in_tile, other=0).to(tl.int64)
        n = block * BLOCK_N * BLOCKS + tl.arange(0, BLOCK_N)
        r = tl.arange(0, BLOCK_R)
        b_ptr = pick(slice_id, b0_ptr, b1_ptr, b2_ptr) + slot.to(tl.int64) * N * R
        position = (start + m).to(tl.int64)
        partial_ptrs = partial_ptr + position[:, None] * (S * SPLITS * R) + slice_id * SPLITS * R + r[None, :]
        y_ptrs = y_ptr + rows[:, None] * y_row_stride + (first_column + n)[None, :]
        weight_type: tl.constexpr = b0_ptr.dtype.element_ty
        out_type: tl.constexpr = y_ptr.dtype.element_ty
        stored = in_tile[:, None] & (n < N)[None, :]
        wait_for_previous_kernel(PDL)
        if R <= BLOCK_R:
            if ADD_INPUTS:
                y = tl.load(y_ptrs, mask=stored, other=0.0)
            in_rank = (r < R) | (R == BLOCK_R)
            b_ptrs = b_ptr + n.to(tl.int64)[None, :] * R + r[:, None]
            b = tl.load(b_ptrs, mask=(n < N)[None, :] & in_rank[:, None], other=0.0)
            v = sum_splits(partial_ptrs, in_tile[:, None] & in_rank[None, :], R, SPLITS).to(weight_type)
            for step in range(BLOCKS):  # B and y of the next block are on their way during this one
                next_column = (step + 1) * BLOCK_N
                wanted = n + next_column < tl.where(step + 1 < BLOCKS, N, 0)
                next_stored = in_tile[:, None] & wanted[None, :]
                next_b = tl.load(b_ptrs + next_column * R, mask=wanted[None, :] & in_rank[:, None], other=0.0)
                acc = tl.dot(v, b)
                if ADD_INPUTS:
                    acc += y.to(tl.float32)
                    y = tl.load(y_ptrs + next_column, mask=next_stored, other=0.0)
                # Streamed out: y is larger than the L2 cache, which x and the weights can use (1% at 2048).
                tl.store(y_ptrs + step * BLOCK_N, acc.to(out_type), mask=stored, cache_modifier=".cs")
                b = next_b
                stored = next_stored
        else:  # BLOCKS is 1: the rank alone fills the loop
            acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
            b_ptrs = b_ptr + tl.minimum(n, N - 1).to(tl.int64)[None, :] * R + r[:, None]
            for first_r in tl.range(0, R, BLOCK_R, num_stages=STAGES):
                in_rank = (r < R - first_r) | (R % BLOCK_R == 0)
                v = sum_splits(partial_ptrs + first_r, in_tile[:, None] & in_rank[None, :], R, SPLITS)
                b = tl.load(b_ptrs + first_r, mask=in_rank[:, None], other=0.0)
                acc = tl.dot(v.to(weight_type), b, acc)
            if ADD_INPUTS:
                acc += tl.load(y_ptrs, mask=stored, other=0.0).to(tl.float32)
            tl.store(y_ptrs, acc.to(out_type), mask=stored)
    else:
        wait_for_previous_kernel(PDL)


def lora_expand_tiled(
    y: torch.Tensor,  # [num_tokens, sum of widths], changed in place
    partial: torch.Tensor,  # [num_tokens (sorted), num_slices, num_splits, R]
    lora_b: Sequence[torch.Tensor],  # per slice [num_slots, 1, N, R]
    tiles: torch.Tensor,  # tile table for tiles of config.block_m
    rows: torch.Tensor,  # [num_tokens], row of y at each sorted position
    add_inputs: bool,
    config: ExpandConfig,
) -> None:
    """y[rows[p], slice s] (+)= (Σ_c partial[p, s, c]) · B_s[slot of p]ᵀ; other rows stay as they are."""
    num_slots, _, _, rank = lora_b[0].shape
    assert config.blocks == 1 or rank <= config.block_r
    num_tokens, num_slices, num_splits, _ = partial.shape
    widths = [b.shape[2] for b in lora_b]
    grid = (
        sum(triton.cdiv(width, config.block_n * config.blocks) for width in widths),
        max_tiles(num_tokens, num_slots, config.block_m),
    )
    b0, b1, b2 = (*lora_b, lora_b[0], lora_b[0])[:3]
    _lora_expand_tiled_kernel[grid](
        y, partial, b0, b1, b2, tiles, rows,
        *(*widths, 0, 0)[:3], y.stride(0),
        S=num_slices, R=rank, SPLITS=num_splits,
        BLOCK_M=config.block_m, BLOCK_N=config.block_n, BLOCK_R=config.block_r, BLOCKS=config.blocks,
        STAGES=config.num_stages, ADD_INPUTS=add_inputs, PDL=config.pdl,
        num_warps=config.num_warps, **config.launch_options(),
    )  # fmt: skip
