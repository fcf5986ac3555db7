"""Block sizes of the LoRA kernels: what a kernel is handed, and the defaults.

`default_shrink_config` and `default_expand_config` are pure functions of the layer's shape, the
number of slots, the bucket of the number of tokens and what the GPU has. A tuned table has the same
key. The defaults were measured on an H200 on 2026-11-30 with Llama-8B shapes (ranks 16, 64, 128) and
Phi-4-multimodal shapes (rank 320): for each, the sums over the four linear layers decided.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

from lorikeet.kernels.tile_table import TILE_SIZES

# Tokens of a step are rounded up to one of these before anything is chosen by their number, so
# that every choice can be compiled before the server is ready.
TOKEN_BUCKETS = (4, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)

# Up to here kernels are so short that the gap between launches counts, and dependent launch hides
# it: 1.5 to 2 us a layer. Above, it gains little and doubles one shape's time (H200, 2026-11-30:
# down at 256 tokens behind its GEMM, 13 -> 27 us).
MAX_PDL_TOKENS = 128


@dataclass(frozen=True)
class Device:
    """What the choice of block sizes needs to know about the GPU."""

    capability: tuple[int, int] = (9, 0)
    shared_bytes: int = 232_448  # that one program can have; 101376 on the smallest we support
    name: str = ""  # as torch.cuda.get_device_name() gives it: measured block sizes belong to one

    @property
    def dependent_launch(self) -> bool:
        return self.capability >= (9, 0)

    @property
    def warpgroup_products(self) -> bool:
        """Whether products read shared memory; elsewhere operands take registers, so more warps."""
        return self.capability[0] in (9, 10)


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

    def fit(self, num_slices: int, shared_bytes: int) -> "ShrinkConfig":
        """The same with as many pipeline stages as shared memory holds; the gemv kernel has none."""
        if self.kernel == "gemv":
            return self
        slices = num_slices if self.kernel == "tiled" else 1
        stage = (self.block_m + slices * self.block_r) * self.block_k * 2
        return replace(self, num_stages=max(1, min(self.num_stages, shared_bytes // stage)))

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

    def fit(self, rank: int, num_splits: int, shared_bytes: int) -> "ExpandConfig":
        """The same with as many pipeline stages as shared memory holds, partial sums included."""
        if rank <= self.block_r:
            return replace(self, num_stages=1)  # there is no loop over the rank
        partial = num_splits * self.block_m * self.block_r * (2 if num_splits == 1 else 4)
        stage = self.block_n * self.block_r * 2 + partial
        return replace(self, num_stages=max(1, min(self.num_stages, shared_bytes // stage)))

    def launch_options(self) -> dict[str, Any]:
        return {"launch_pdl": True} if self.pdl else {}


def token_bucket(num_tokens: int) -> int:
    """`num_tokens` rounded up to a bucket; all larger numbers share the last one."""
    return next((bucket for bucket in TOKEN_BUCKETS if num_tokens <= bucket), TOKEN_BUCKETS[-1])


def default_shrink_config(
    k: int, num_slices: int, rank: int, num_slots: int, num_tokens: int, device: Device
) -> ShrinkConfig:
    tokens = token_bucket(num_tokens)
    pdl = device.dependent_launch and tokens <= MAX_PDL_TOKENS
    few_a_slot = tokens < 4 * num_slots  # then most tiles hold a token or two
    if (rank <= 64 and tokens <= 4) or (rank <= 32 and tokens <= 32 and (tokens <= 16 or few_a_slot)):
        chunk = 2048 if k * num_slices >= 12288 and 4 < tokens <= 16 else 1024
        if rank <= 32 and k * num_slices <= 4096:
            chunk = 512
        chunk = min(chunk, power_of_two_at_least(k))
        return ShrinkConfig("gemv", 4, min(power_of_two_at_least(rank), 16), chunk, chunk, 8, pdl=pdl)
    block_r = rank_block(rank)
    if tokens <= 128 or (rank <= 64 and tokens <= 512) or (tokens <= 256 and k <= 4096):
        block_m = 32 if tokens > 128 else 16
        block_k = 256 if rank <= 32 and tokens <= 32 and k % 256 == 0 else 128
        chunk = even_chunk(k, _swap_chunk(k, num_slices, rank, num_slots, tokens), block_k)
        config = ShrinkConfig("swap", block_m, block_r, chunk, block_k, pdl=pdl)
    elif rank <= 128:
        block_k = 128 if k % 16 == 0 else 64  # narrow loads go through registers
        chunk = even_chunk(k, _tiled_chunk(k, num_slices, rank, tokens), block_k)
        config = ShrinkConfig("tiled", 64, block_r, chunk, block_k, num_stages=3)
    else:
        chunk = even_chunk(k, _tiled_chunk(k, num_slices, rank, tokens), 64)
        large = num_slices >= 3 and tokens >= 2048
        config = ShrinkConfig("tiled", 128 if large else 64, block_r, chunk, 64, 8 if large else 4)
    return config.fit(num_slices, device.shared_bytes)


def default_expand_config(
    n: tuple[int, ...], rank: int, num_slots: int, num_tokens: int, num_splits: int, device: Device
) -> ExpandConfig:
    tokens = token_bucket(num_tokens)
    pdl = device.dependent_launch and tokens <= MAX_PDL_TOKENS
    block_r = rank_block(rank)
    if rank <= 32 and tokens <= 512:
        config = ExpandConfig("swap", 16, 256, block_r, pdl=pdl)
    elif tokens <= 128:
        block_n = 128 if rank > 128 else 256
        block_r = 128 if 64 < rank <= 128 else 64
        config = ExpandConfig(
            "swap", 16, block_n, block_r, num_warps=8 if rank <= 64 else 4, num_stages=4, pdl=pdl
        )
    elif rank <= 32:
        config = ExpandConfig("tiled", 32, 128, block_r, blocks=8 if sum(n) > 4096 else 4)
    elif rank <= 64:
        wide = tokens > 1024 and (tokens > 4096 or sum(n) > 4096)
        blocks = 8 if tokens > 1024 else 4
        config = ExpandConfig("tiled", 64, 128 if wide else 64, block_r, blocks, num_warps=8 if wide else 4)
    else:
        config = ExpandConfig("tiled", 64, 128, block_r)
    if not device.warpgroup_products:
        config = replace(config, num_warps=8)
    return config.fit(rank, num_splits, device.shared_bytes)


def _swap_chunk(k: int, num_slices: int, rank: int, num_slots: int, tokens: int) -> int:
    if rank <= 64:
        few = tokens <= 128 if rank <= 32 else tokens <= 64 and k <= 8192
        return 512 if few else 2048 if rank > 32 and tokens > 256 else 1024
    return 1024 if min(tokens, num_slots) <= 4 or (rank <= 128 and k * num_slices <= 4096) else 2048


def _tiled_chunk(k: int, num_slices: int, rank: int, tokens: int) -> int:
    if rank <= 64:
        short = num_slices == 1 and k <= 4096
        if tokens <= 1024 or (short and tokens <= 4096) or (rank <= 32 and tokens <= 2048 and k <= 4096):
            return 1024
        return 4096 if rank > 32 and (k > 4096 or tokens > 4096) else 2048
    return 4096 if rank <= 128 or tokens <= 1024 or k > 8192 else k


def even_chunk(k: int, wanted: int, block_k: int) -> int:
    """About `wanted` elements of K, so that all programs have about the same."""
    num_chunks = max(1, -(-k // wanted))
    return -(-k // num_chunks // block_k) * block_k


def rank_block(rank: int) -> int:
    """Ranks that one step of a matrix product takes: the matrix unit needs at least 16."""
    return min(max(power_of_two_at_least(rank), 16), 64)


def power_of_two_at_least(number: int) -> int:
    return 1 << (number - 1).bit_length()
