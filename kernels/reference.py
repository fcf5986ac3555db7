"""The LoRA operators in plain PyTorch and float32: what the kernels are compared with."""

from collections.abc import Sequence

import torch


def lora_shrink(
    x: torch.Tensor,  # [num_tokens, K]
    lora_a: Sequence[torch.Tensor],  # per slice [num_slots, 1, R, K]
    slot_of_token: torch.Tensor,  # [num_tokens], -1 without adapter
) -> torch.Tensor:
    """s[t, i] = x[t] · A_i[slot of t]ᵀ, float32 [num_tokens, num_slices, R]; zero without adapter."""
    shrunk = x.new_zeros((x.shape[0], len(lora_a), lora_a[0].shape[2]), dtype=torch.float32)
    for slot in _used_slots(slot_of_token):
        tokens = slot_of_token == slot
        for slice_id, a in enumerate(lora_a):
            shrunk[tokens, slice_id] = x[tokens].float() @ a[slot, 0].float().T
    return shrunk


def lora_expand(
    y: torch.Tensor,  # [num_tokens, sum of widths], changed in place
    shrunk: torch.Tensor,  # [num_tokens, num_slices, R]
    lora_b: Sequence[torch.Tensor],  # per slice [num_slots, 1, N, R]
    slot_of_token: torch.Tensor,  # [num_tokens], -1 without adapter
    add_inputs: bool = True,
) -> None:
    """y[t, slice i] (+)= s[t, i] · B_i[slot of t]ᵀ, s rounded to B's dtype as vLLM does."""
    for slot in _used_slots(slot_of_token):
        tokens = slot_of_token == slot
        first_column = 0
        for slice_id, b in enumerate(lora_b):
            columns = slice(first_column, first_column + b.shape[2])
            delta = shrunk[tokens, slice_id].to(b.dtype).float() @ b[slot, 0].float().T
            if add_inputs:
                delta += y[tokens, columns].float()
            y[tokens, columns] = delta.to(y.dtype)
            first_column = columns.stop


def lora_linear(
    y: torch.Tensor,
    x: torch.Tensor,
    lora_a: Sequence[torch.Tensor],
    lora_b: Sequence[torch.Tensor],
    slot_of_token: torch.Tensor,
    add_inputs: bool = True,
) -> None:
    """y[t, slice i] (+)= x[t] · A_i[slot of t]ᵀ · B_i[slot of t]ᵀ; other rows stay as they are."""
    lora_expand(y, lora_shrink(x, lora_a, slot_of_token), lora_b, slot_of_token, add_inputs)


def _used_slots(slot_of_token: torch.Tensor) -> list[int]:
    return [slot for slot in slot_of_token.unique().tolist() if slot >= 0]
