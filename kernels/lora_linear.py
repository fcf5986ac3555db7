"""The operator `lorikeet::lora_linear`: one linear layer's LoRA, shrink then expand.

PyTorch's compiler sees one opaque call that changes y. Everything chosen by the number of tokens is
chosen inside it, where the number is concrete.
"""

from collections import Counter
from collections.abc import Sequence
from functools import cache

import torch

from lorikeet.kernels.config import Device, ExpandConfig, ShrinkConfig, token_bucket
from lorikeet.kernels.device import MAX_SLICES
from lorikeet.kernels.lora_expand_swap import lora_expand_swap
from lorikeet.kernels.lora_expand_tiled import lora_expand_tiled
from lorikeet.kernels.lora_shrink_gemv import lora_shrink_gemv
from lorikeet.kernels.lora_shrink_swap import lora_shrink_swap
from lorikeet.kernels.lora_shrink_tiled import lora_shrink_tiled
from lorikeet.kernels.schema import SCHEMA
from lorikeet.kernels.shape import LayerShape
from lorikeet.kernels.tile_table import TILE_SIZES
from lorikeet.kernels.tuned import TunedConfigs, load_tuned

# Executions of the operator by Python, by operator name. Replays of a CUDA graph are not seen.
calls: Counter[str] = Counter()

SHRINK = {"gemv": lora_shrink_gemv, "swap": lora_shrink_swap, "tiled": lora_shrink_tiled}
EXPAND = {"swap": lora_expand_swap, "tiled": lora_expand_tiled}
_ALIGNMENT_BYTES = 16
_tuned: list[TunedConfigs] = []  # one, once chosen


def lora_linear(
    y: torch.Tensor,  # [num_tokens, sum of widths], last dimension contiguous, changed in place
    x: torch.Tensor,  # [num_tokens, K], fp16 or bf16
    lora_a: Sequence[torch.Tensor],  # per slice [num_slots, 1, R, K], contiguous, x's dtype
    lora_b: Sequence[torch.Tensor],  # per slice [num_slots, 1, N, R], contiguous, x's dtype
    tile_tables: Sequence[torch.Tensor],  # one for each of TILE_SIZES, int32 [tiles, 3]
    rows: torch.Tensor,  # [at least num_tokens], int32, token at each sorted position
    no_lora_flag_cpu: torch.Tensor,  # [1], bool, on the CPU: no token has an adapter
    add_inputs: bool,
) -> None:
    """y[t, slice i] (+)= x[t] · A_i[slot of t]ᵀ · B_i[slot of t]ᵀ; other rows stay as they are."""
    if no_lora_flag_cpu.item() or x.shape[0] == 0:
        return
    calls["lora_linear"] += 1
    lora_linear_of(y, x, lora_a, lora_b, tile_tables, rows, add_inputs)


def lora_linear_of(
    y: torch.Tensor,
    x: torch.Tensor,
    lora_a: Sequence[torch.Tensor],
    lora_b: Sequence[torch.Tensor],
    tile_tables: Sequence[torch.Tensor],
    rows: torch.Tensor,
    add_inputs: bool,
) -> None:
    """`lora_linear` without the count and the flag."""
    device = device_of(x.device)
    x = _aligned(x)
    first_column = 0
    for first in range(0, len(lora_a), MAX_SLICES):
        group = slice(first, first + MAX_SLICES)
        width = sum(b.shape[2] for b in lora_b[group])
        lora_slices(
            y[:, first_column : first_column + width], x, lora_a[group], lora_b[group],
            tile_tables, rows, add_inputs, device,
        )  # fmt: skip
        first_column += width


def lora_slices(
    y: torch.Tensor,
    x: torch.Tensor,
    lora_a: Sequence[torch.Tensor],
    lora_b: Sequence[torch.Tensor],
    tile_tables: Sequence[torch.Tensor],
    rows: torch.Tensor,
    add_inputs: bool,
    device: Device,
) -> None:
    """`lora_linear` for at most MAX_SLICES slices."""
    num_tokens = x.shape[0]
    num_slots, _, rank, k = lora_a[0].shape
    widths = tuple(b.shape[2] for b in lora_b)
    shrink, expand = _configs(k, widths, rank, num_slots, x.dtype, token_bucket(num_tokens), device)
    lora_slices_with(y, x, lora_a, lora_b, tile_tables, rows, add_inputs, shrink, expand)


def lora_slices_with(
    y: torch.Tensor,
    x: torch.Tensor,
    lora_a: Sequence[torch.Tensor],
    lora_b: Sequence[torch.Tensor],
    tile_tables: Sequence[torch.Tensor],
    rows: torch.Tensor,
    add_inputs: bool,
    shrink: ShrinkConfig,
    expand: ExpandConfig,
) -> None:
    """`lora_slices` with given block sizes."""
    _, _, rank, k = lora_a[0].shape
    num_splits = shrink.num_splits(k)
    partial = torch.empty(
        (x.shape[0], len(lora_a), num_splits, rank), dtype=partial_dtype(shrink, k, x.dtype), device=x.device
    )
    SHRINK[shrink.kernel](x, lora_a, partial, _table(tile_tables, shrink.block_m), rows, shrink)
    EXPAND[expand.kernel](y, partial, lora_b, _table(tile_tables, expand.block_m), rows, add_inputs, expand)


def partial_dtype(shrink: ShrinkConfig, k: int, dtype: torch.dtype) -> torch.dtype:
    """Of what shrink leaves. A single chunk is final: it is rounded to B's dtype there, not in expand."""
    return dtype if shrink.num_splits(k) == 1 and shrink.kernel != "gemv" else torch.float32


@cache
def device_of(device: torch.device) -> Device:
    if device.type != "cuda":
        return Device(capability=(0, 0))
    properties = torch.cuda.get_device_properties(device)
    return Device(
        capability=(properties.major, properties.minor),
        shared_bytes=properties.shared_memory_per_block_optin,
        name=properties.name,
    )


def use_tuned(tuned: TunedConfigs) -> None:
    """Choose block sizes by `tuned` from now on; before the first trace, with the same on every rank."""
    _tuned[:] = [tuned]
    _configs.cache_clear()


@cache
def _configs(
    k: int,
    widths: tuple[int, ...],
    rank: int,
    num_slots: int,
    dtype: torch.dtype,
    num_tokens: int,
    device: Device,
) -> tuple[ShrinkConfig, ExpandConfig]:
    if not _tuned:  # in plain `vllm serve` nobody chose: what the package brings
        use_tuned(load_tuned(device))
    shape = LayerShape(k, widths, rank, num_slots, str(dtype).removeprefix("torch."))
    return _tuned[0].find(shape, num_tokens, device)[0]


def _table(tile_tables: Sequence[torch.Tensor], tile_size: int) -> torch.Tensor:
    return tile_tables[TILE_SIZES.index(tile_size)]


def _aligned(x: torch.Tensor) -> torch.Tensor:
    """x itself, or a copy when its rows or start would need a kernel variant of their own."""
    same_rows = x.stride(1) == 1 and (x.stride(0) % 16 == 0) == (x.shape[1] % 16 == 0)
    if same_rows and x.data_ptr() % _ALIGNMENT_BYTES == 0:
        return x
    return x.clone(memory_format=torch.contiguous_format)


def _fake(*_args: object) -> None:
    """Shapes of the result, for tracing: there is no result."""


_library = torch.library.Library("lorikeet", "DEF")
_library.define(SCHEMA)
_library.impl("lora_linear", lora_linear, "CUDA")
_library.impl("lora_linear", lora_linear, "CPU")  # Triton's interpreter
torch.library.register_fake("lorikeet::lora_linear", _fake, lib=_library)
