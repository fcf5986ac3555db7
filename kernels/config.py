"""Block sizes of the LoRA kernels: what a kernel is handed, and the defaults.

`default_shrink_config` and `default_expand_config` are pure functions of the layer's shape, the
number of slots and the bucket of the number of tokens. A tuned table has the same key.
"""

from dataclasses import dataclass
from typing import Any, Literal

from lorikeet.kernels.tile_table import TILE_SIZES

# Tokens of a step are rounded up to one of these before anything is chosen by their number, so
# that every choice can be compiled before the server is ready.
TOKEN_BUCKETS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)

# Up to here kernels are so short that the gap between launches counts, and dependent launch hides
# it. Above, it gains little and doubles one shape's time (H200, 2026-11-30: down at 256 tokens,
# 13 -> 27 us).
MAX_PDL_TOKENS = 128


@dataclass(frozen=True)
class ShrinkConfig:
    kernel: Literal["gemv", "swap", "tiled"]
    block_m: int
    block_r: int
    chunk_k: int  # elements of K that one program reads, a multiple of block_k
    block_k: int
    num_warps: int = 4
    num_stages: int = 4
    pdl: bool = False

    def __post_init__(self) -> None:
        assert self.block_m in TILE_SIZES
        assert self.chunk_k % self.block_k == 0

    def num_splits(self, k: int) -> int:
        return -(-k // self.chunk_k)

    def divides(self, k: int) -> bool:
        """Whether no load can overrun K."""
        return k % self.block_k == 0

    def launch_options(self) -> dict[str, Any]:
        return {"launch_pdl": True} if self.pdl else {}


@dataclass(frozen=True)
class ExpandConfig:
    kernel: Literal["swap", "tiled"]
    block_m: int
    block_n: int
    block_r: int
    blocks: int = 1  # blocks of columns that one program handles
    num_warps: int = 4
    num_stages: int = 3
    pdl: bool = False

    def __post_init__(self) -> None:
        assert self.block_m in TILE_SIZES

    def launch_options(self) -> dict[str, Any]:
        return {"launch_pdl": True} if self.pdl else {}


def token_bucket(num_tokens: int) -> int:
    """`num_tokens` rounded up to a bucket; all larger numbers share the last one."""
    return next((bucket for bucket in TOKEN_BUCKETS if num_tokens <= bucket), TOKEN_BUCKETS[-1])


def default_shrink_config(
    k: int, num_slices: int, rank: int, num_slots: int, num_tokens: int, pdl: bool
) -> ShrinkConfig:
    """Measured on an H200 in 2026-11 with Llama-8B and Phi-4-multimodal shapes."""
    tokens = token_bucket(num_tokens)
    pdl = pdl and tokens <= MAX_PDL_TOKENS
    block_r = rank_block(rank)
    if rank <= 32 and tokens <= 32:
        chunk = min(1024, power_of_two_at_least(k))
        return ShrinkConfig("gemv", 4, min(power_of_two_at_least(rank), 16), chunk, chunk, pdl=pdl)
    if tokens <= 128:
        chunk = 512 if rank < 64 else 1024 if rank < 256 or num_slots == 1 else 2048
        return ShrinkConfig("swap", 16, block_r, chunk, 128, pdl=pdl)
    block_m = 32 if tokens <= 256 and num_slots > 1 else 64
    splits = 8 if tokens <= 256 or k > 8192 else 4
    if rank >= 256:
        splits = 4 if tokens <= 256 else 2 if k > 8192 else 1
    chunk = -(-k // splits // 64) * 64
    return ShrinkConfig("tiled", block_m, block_r, chunk, 64)


def default_expand_config(
    n: tuple[int, ...], rank: int, num_slots: int, num_tokens: int, pdl: bool
) -> ExpandConfig:
    """Measured on an H200 in 2026-11 with Llama-8B and Phi-4-multimodal shapes."""
    tokens = token_bucket(num_tokens)
    pdl = pdl and tokens <= MAX_PDL_TOKENS
    block_r = rank_block(rank)
    if tokens <= 128:
        return ExpandConfig("swap", 16, 256 if rank == 64 else 128, block_r, pdl=pdl)
    block_m = 32 if tokens <= 256 and num_slots > 1 and rank < 64 else 64
    if rank >= 256 and tokens > 1024:
        return ExpandConfig("tiled", 128, 256 if sum(n) > 4096 else 128, block_r, num_warps=8)
    return ExpandConfig("tiled", block_m, 128, block_r, blocks=4 if 32 < rank <= 64 else 1, num_warps=8)


def rank_block(rank: int) -> int:
    """Ranks that one step of a matrix product takes: the matrix unit needs at least 16."""
    return min(max(power_of_two_at_least(rank), 16), 64)


def power_of_two_at_least(number: int) -> int:
    return 1 << (number - 1).bit_length()
