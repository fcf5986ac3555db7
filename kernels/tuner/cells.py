"""What is measured: a layer's shape with a bucket of tokens, and which tokens stand for the bucket."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lorikeet.kernels.config import TOKEN_BUCKETS
from lorikeet.kernels.shape import LayerShape, launch_shapes

MAX_SLICES = 3  # as in kernels/device.py, which imports Triton
DECODE_BUCKETS = tuple(bucket for bucket in TOKEN_BUCKETS if bucket <= 32)
# Numbers of tokens that stand for a bucket; where not named, its largest. Decode is mostly at 1 and 8.
_TOKENS = {4: (1, 4), 16: (8, 16)}


@dataclass(frozen=True)
class Cell:
    shape: LayerShape
    bucket: int

    @property
    def token_counts(self) -> tuple[int, ...]:
        return _TOKENS.get(self.bucket, (self.bucket,))

    def __str__(self) -> str:
        return f"{self.shape}, {self.bucket} tokens"


def spread_slots(num_tokens: int, num_slots: int) -> list[int]:
    """A slot for each token: every slot once, then at random, in random order; the same each time."""
    generator = random.Random(num_tokens * 1000 + num_slots)
    slots = [*range(min(num_tokens, num_slots))]
    slots += generator.choices(range(num_slots), k=num_tokens - len(slots))
    generator.shuffle(slots)
    return slots


def cells_of(
    layers: Iterable[tuple[int, tuple[int, ...]]],  # (K, widths)
    ranks: Sequence[int],
    slots: Sequence[int],
    buckets: Sequence[int] = TOKEN_BUCKETS,
    dtype: str = "bfloat16",
) -> list[Cell]:
    """Every cell once, the most valuable first: decode before prefill, earlier slots and ranks before later.

    A shape's buckets come in ascending order: a bucket without a row takes the next larger one's, which must
    not be there before its own.
    """
    layers = list(dict.fromkeys(layers))
    decode = [bucket for bucket in buckets if bucket in DECODE_BUCKETS]
    prefill = [bucket for bucket in buckets if bucket not in DECODE_BUCKETS]
    cells = [
        Cell(shape, bucket)
        for part in (decode, prefill)
        for num_slots in slots
        for rank in ranks
        for k, n in layers
        for shape in launch_shapes(k, n, rank, num_slots, dtype, MAX_SLICES)
        for bucket in part
    ]
    return list(dict.fromkeys(cells))
