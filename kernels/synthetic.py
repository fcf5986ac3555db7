"""Random layers and steps, to test and to time the kernels with."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from lorikeet.kernels import reference, step_tables
from lorikeet.kernels.tile_table import TILE_SIZES

Weights = tuple[list[torch.Tensor], list[torch.Tensor]]  # (A, B), a tensor for each slice


@dataclass(frozen=True)
class Step:
    """Which token has which adapter, as the kernels read it."""

    slot_of_token: torch.Tensor  # [num_tokens], int64, -1 without adapter
    tile_tables: list[torch.Tensor]
    rows: torch.Tensor

    def table(self, tile_size: int) -> torch.Tensor:
        return self.tile_tables[TILE_SIZES.index(tile_size)]


@dataclass
class Problem:
    """One linear layer with LoRA and the tokens of one step."""

    y: torch.Tensor
    x: torch.Tensor
    lora_a: list[torch.Tensor]
    lora_b: list[torch.Tensor]
    step: Step

    def expected(self, add_inputs: bool = True) -> torch.Tensor:
        """y after the operator, in float32."""
        y = self.y.float()
        reference.lora_linear(y, self.x, self.lora_a, self.lora_b, self.step.slot_of_token, add_inputs)
        return y


def make_step(slots: Sequence[int], num_slots: int, device: str) -> Step:
    fields = step_tables.layout(max(len(slots), 1), num_slots)
    buffer = np.zeros(step_tables.buffer_bytes(fields), dtype=np.uint8)
    arrays = step_tables.views(buffer, fields)
    step_tables.fill_step(arrays, np.array(slots, dtype=np.int32), np.zeros(0, dtype=np.int32), num_slots, 1)
    return Step(
        slot_of_token=torch.tensor(slots, dtype=torch.int64, device=device),
        tile_tables=[torch.from_numpy(arrays[f"tiles.{size}"]).to(device) for size in TILE_SIZES],
        rows=torch.from_numpy(arrays["token.rows"]).to(device),
    )


def make_weights(
    k: int, widths: Sequence[int], rank: int, num_slots: int, dtype: torch.dtype, device: str
) -> Weights:
    """Weights that keep x's scale, so that relative errors mean something."""
    lora_a = [torch.randn(num_slots, 1, rank, k, dtype=dtype, device=device) * k**-0.5 for _ in widths]
    lora_b = [torch.randn(num_slots, 1, n, rank, dtype=dtype, device=device) * rank**-0.5 for n in widths]
    return lora_a, lora_b


def make_problem(
    slots: Sequence[int],
    k: int,
    widths: Sequence[int],
    rank: int,
    num_slots: int,
    dtype: torch.dtype,
    device: str,
) -> Problem:
    lora_a, lora_b = make_weights(k, widths, rank, num_slots, dtype, device)
    return Problem(
        y=torch.randn(len(slots), sum(widths), dtype=dtype, device=device),
        x=torch.randn(len(slots), k, dtype=dtype, device=device),
        lora_a=lora_a,
        lora_b=lora_b,
        step=make_step(slots, num_slots, device),
    )
