"""Compile and load every kernel variant that serving can reach, before the server is ready.

What a launch compiles to depends on the layer's shape, the bucket of the number of tokens and how the
result is written, so one launch for each is enough. The tiles are all empty: nothing is computed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from lorikeet.kernels import lora_linear
from lorikeet.kernels.config import TOKEN_BUCKETS
from lorikeet.kernels.tile_table import TILE_COLUMNS, TILE_SIZES, max_tiles

Weights = Sequence[torch.Tensor]


@dataclass(frozen=True)
class LayerKind:
    """Layers of one kind share their variants."""

    shapes_a: tuple[torch.Size, ...]
    shapes_b: tuple[torch.Size, ...]
    dtype: torch.dtype

    @classmethod
    def of(cls, lora_a: Weights, lora_b: Weights) -> "LayerKind":
        return cls(tuple(a.shape for a in lora_a), tuple(b.shape for b in lora_b), lora_a[0].dtype)


def warm_up(layers: Iterable[tuple[Weights, Weights]], max_tokens: int, add_inputs: Sequence[bool]) -> int:
    """Launch each variant once and return the number of launches. The weights are not read."""
    kinds = {LayerKind.of(lora_a, lora_b): (lora_a, lora_b) for lora_a, lora_b in layers}
    num_launches = 0
    for lora_a, lora_b in kinds.values():
        for num_tokens in bucket_sizes(max_tokens):
            for add in add_inputs:
                _launch(lora_a, lora_b, num_tokens, add)
                num_launches += 1
    return num_launches


def bucket_sizes(max_tokens: int) -> list[int]:
    """One number of tokens for each bucket that a step of at most `max_tokens` falls into."""
    return [bucket for bucket in TOKEN_BUCKETS if bucket < max_tokens] + [max_tokens]


def _launch(lora_a: Weights, lora_b: Weights, num_tokens: int, add_inputs: bool) -> None:
    num_slots, _, _, k = lora_a[0].shape
    device, dtype = lora_a[0].device, lora_a[0].dtype
    tables = [
        torch.full(
            (max_tiles(num_tokens, num_slots, size), TILE_COLUMNS), -1, dtype=torch.int32, device=device
        )
        for size in TILE_SIZES
    ]
    lora_linear.lora_linear_of(
        torch.empty(num_tokens, sum(b.shape[2] for b in lora_b), dtype=dtype, device=device),
        torch.empty(num_tokens, k, dtype=dtype, device=device),
        lora_a, lora_b, tables, torch.zeros(num_tokens, dtype=torch.int32, device=device), add_inputs,
    )  # fmt: skip
