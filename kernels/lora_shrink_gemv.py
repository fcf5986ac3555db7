"""lora_shrink for decode at small rank: a chunk of A in registers times up to four rows of x."""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

from lorikeet.kernels.config import ShrinkConfig
from lorikeet.kernels.device import let_next_kernel_start, pick, wait_for_previous_kernel
from lorikeet.kernels.tile_table import max_tiles

ROWS_PER_TILE = 4  # written out in the kernel body


@triton.jit(do_not_specialize=["num_splits"])
def _lora_shrink_gemv_kernel(
    x_ptr, a0_ptr, a1_ptr, a2_ptr, partial_ptr, tiles_ptr, rows_ptr,
    K, x_row_stride, num_splits,
    S: tl.constexpr, R: tl.constexpr, BLOCK_R: tl.constexpr, CHUNK_K: tl.constexpr,
    EVEN_K: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    let_next_kernel_start(PDL)
    pid = tl.program_id(0)
    split = pid % num_splits
    rank_block = (pid // num_splits) % tl.cdiv(R, BLOCK_R)
    slice_id = pid // (num_splits * tl.cdiv(R, BLOCK_R))
    tile_ptr = tiles_ptr + tl.program_id(1) * 3
    slot = tl.load(tile_ptr)
    if slot >= 0:
        start = tl.load(tile_ptr + 1)
        length = tl.load(tile_ptr + 2)
        r = rank_block * BLOCK_R + tl.arange(0, BLOCK_R)
        k = split * CHUNK_K + tl.arange(0, CHUNK_K)
        a_ptr = pick(slice_id, a0_ptr, a1_ptr, a2_ptr) + slot.to(tl.int64) * R * K
        a_ptrs = a_ptr + tl.minimum(r, R - 1)[:, None] * K + k[None, :]
        a = tl.load(a_ptrs, mask=(k < K)[None, :] | EVEN_K, other=0.0)  # [BLOCK_R, CHUNK_K]
        row0 = tl.load(rows_ptr + start).to(tl.int64)
        row1 = tl.load(rows_ptr + start + 1, mask=length > 1, other=0).to(tl.int64)
        row2 = tl.load(rows_ptr + start + 2, mask=length > 2, other=0).to(tl.int64)
        row3 = tl.load(rows_ptr + start + 3, mask=length > 3, other=0).to(tl.int64)
        wait_for_previous_kernel(PDL)
        # All loads before the first store: the compiler cannot move them across it.
        x0 = tl.load(x_ptr + row0 * x_row_stride + k, mask=k < K, other=0.0)
        x1 = tl.load(x_ptr + row1 * x_row_stride + k, mask=k < tl.where(length > 1, K, 0), other=0.0)
        x2 = tl.load(x_ptr + row2 * x_row_stride + k, mask=k < tl.where(length > 2, K, 0), other=0.0)
        x3 = tl.load(x_ptr + row3 * x_row_stride + k, mask=k < tl.where(length > 3, K, 0), other=0.0)
        a = a.to(tl.float32)
        row_stride = S * num_splits * R
        out = partial_ptr + start.to(tl.int64) * row_stride + (slice_id * num_splits + split) * R + r
        stored = r < R
        tl.store(out, tl.sum(a * x0.to(tl.float32)[None, :], 1), mask=stored)
        if length > 1:
            tl.store(out + row_stride, tl.sum(a * x1.to(tl.float32)[None, :], 1), mask=stored)
            if length > 2:
                tl.store(out + 2 * row_stride, tl.sum(a * x2.to(tl.float32)[None, :], 1), mask=stored)
                if length > 3:
                    tl.store(out + 3 * row_stride, tl.sum(a * x3.to(tl.float32)[None, :], 1), mask=stored)
    else:
        wait_for_previous_kernel(PDL)


def lora_shrink_gemv(
    x: torch.Tensor,  # [num_tokens, K]
    lora_a: Sequence[torch.Tensor],  # per slice [num_slots, 1, R, K]
    partial: torch.Tensor,  # [num_tokens (sorted), num_slices, num_splits, R], fp32, changed in place
    tiles: torch.Tensor,  # tile table for tiles of 4
    rows: torch.Tensor,  # [num_tokens], row of x at each sorted position
    config: ShrinkConfig,
) -> None:
    """partial[p, s, c] = x[rows[p]] · A_s[slot of p]ᵀ over the c-th chunk of K."""
    assert config.block_m == ROWS_PER_TILE
    num_slots, _, rank, k = lora_a[0].shape
    num_tokens, num_slices, num_splits, _ = partial.shape
    grid = (
        num_splits * triton.cdiv(rank, config.block_r) * num_slices,
        max_tiles(num_tokens, num_slots, config.block_m),
    )
    a0, a1, a2 = (*lora_a, lora_a[0], lora_a[0])[:3]
    _lora_shrink_gemv_kernel[grid](
        x, a0, a1, a2, partial, tiles, rows,
        k, x.stride(0), num_splits,
        S=num_slices, R=rank, BLOCK_R=config.block_r, CHUNK_K=config.chunk_k,
        EVEN_K=k % config.chunk_k == 0, PDL=config.pdl,
        num_warps=config.num_warps, **config.launch_options(),
    )  # fmt: skip
