"""lora_shrink for few tokens a tile: A is the first operand of the product, tokens the second.

The matrix unit wants 64 rows of its first operand; ranks have them where a handful of tokens do not,
and A then goes from memory to shared memory without a stop in registers.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

from lorikeet.kernels.config import ShrinkConfig
from lorikeet.kernels.device import let_next_kernel_start, pick, wait_for_previous_kernel
from lorikeet.kernels.tile_table import max_tiles


@triton.jit(do_not_specialize=["num_splits"])
def _lora_shrink_swap_kernel(
    x_ptr, a0_ptr, a1_ptr, a2_ptr, partial_ptr, tiles_ptr, rows_ptr,
    K, chunk_k, x_row_stride, num_splits,
    S: tl.constexpr, R: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_R: tl.constexpr,
    BLOCK_K: tl.constexpr, STAGES: tl.constexpr, EVEN_K: tl.constexpr, PDL: tl.constexpr,
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
        m = tl.arange(0, BLOCK_M)
        # Columns past the tile repeat its first row; they are computed, never stored.
        rows = tl.load(rows_ptr + start + tl.where(m < length, m, 0)).to(tl.int64)
        r = rank_block * BLOCK_R + tl.arange(0, BLOCK_R)
        first_k = split * chunk_k
        k = first_k + tl.arange(0, BLOCK_K)
        a_ptr = pick(slice_id, a0_ptr, a1_ptr, a2_ptr) + slot.to(tl.int64) * R * K
        a_ptrs = a_ptr + tl.minimum(r, R - 1)[:, None] * K + k[None, :]
        x_ptrs = x_ptr + rows[None, :] * x_row_stride + k[:, None]
        wait_for_previous_kernel(PDL)
        acc = tl.zeros((BLOCK_R, BLOCK_M), dtype=tl.float32)
        for step in tl.range(0, tl.minimum(chunk_k, K - first_k), BLOCK_K, num_stages=STAGES):
            if EVEN_K:
                a = tl.load(a_ptrs + step)
                x = tl.load(x_ptrs + step)
            else:
                a = tl.load(a_ptrs + step, mask=(k < K - step)[None, :], other=0.0)
                x = tl.load(x_ptrs + step, mask=(k < K - step)[:, None], other=0.0)
            acc = tl.dot(a, x, acc)
        out = partial_ptr + (start + m).to(tl.int64)[None, :] * (S * num_splits * R)
        out += ((slice_id * num_splits + split) * R + r)[:, None]
        tl.store(out, acc.to(partial_ptr.dtype.element_ty), mask=(m < length)[None, :] & (r < R)[:, None])
    else:
        wait_for_previous_kernel(PDL)


def lora_shrink_swap(
    x: torch.Tensor,  # [num_tokens, K]
    lora_a: Sequence[torch.Tensor],  # per slice [num_slots, 1, R, K]
    partial: torch.Tensor,  # [num_tokens (sorted), num_slices, num_splits, R], changed in place
    tiles: torch.Tensor,  # tile table for tiles of config.block_m
    rows: torch.Tensor,  # [num_tokens], row of x at each sorted position
    config: ShrinkConfig,
) -> None:
    """partial[p, s, c] = x[rows[p]] · A_s[slot of p]ᵀ over the c-th chunk of K."""
    num_slots, _, rank, k = lora_a[0].shape
    num_tokens, num_slices, num_splits, _ = partial.shape
    grid = (
        num_splits * triton.cdiv(rank, config.block_r) * num_slices,
        max_tiles(num_tokens, num_slots, config.block_m),
    )
    a0, a1, a2 = (*lora_a, lora_a[0], lora_a[0])[:3]
    _lora_shrink_swap_kernel[grid](
        x, a0, a1, a2, partial, tiles, rows,
        k, config.chunk_k, x.stride(0), num_splits,
        S=num_slices, R=rank, BLOCK_M=config.block_m, BLOCK_R=config.block_r, BLOCK_K=config.block_k,
        STAGES=config.num_stages, EVEN_K=config.divides(k), PDL=config.pdl,
        num_warps=config.num_warps, **config.launch_options(),
    )  # fmt: skip
