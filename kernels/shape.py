"""The shape that block sizes are chosen by: one linear layer with LoRA, as the kernels see it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LayerShape:
    """Layers of one shape share their block sizes. At most MAX_SLICES widths: one launch's."""

    k: int
    n: tuple[int, ...]  # width of each slice
    rank: int
    num_slots: int
    dtype: str = "bfloat16"

    def __str__(self) -> str:
        widths = "+".join(map(str, self.n))
        return f"{self.k}→{widths} rank {self.rank} slots {self.num_slots} {self.dtype}"


def launch_shapes(
    k: int, n: tuple[int, ...], rank: int, num_slots: int, dtype: str, max_slices: int
) -> list[LayerShape]:
    """The shapes that one layer is launched in: a layer with many slices takes several launches."""
    return [
        LayerShape(k, n[first : first + max_slices], rank, num_slots, dtype)
        for first in range(0, len(n), max_slices)
    ]
