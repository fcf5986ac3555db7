"""What the LoRA kernels of one step read: slots, token groups and tiles, computed on the host.

vLLM's own operators (embeddings, logits, sharded layers, experts) read the arrays that vLLM's
metadata classes hold, so those are written too, with the same values.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from lorikeet.kernels.tile_table import TILE_COLUMNS, TILE_SIZES, fill_tile_table, max_tiles

_ALIGNMENT_BYTES = 256
Arrays = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Field:
    """One array of the buffer that is copied to the device each step."""

    offset_bytes: int
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]

    @property
    def num_bytes(self) -> int:
        return int(np.prod(self.shape)) * self.dtype.itemsize


def layout(max_tokens: int, num_slots: int) -> dict[str, Field]:
    """Where each array lies in the buffer."""
    fields: dict[str, Field] = {}
    offset = 0

    def add(name: str, dtype: type, *shape: int) -> None:
        nonlocal offset
        fields[name] = Field(offset, shape, np.dtype(dtype))
        offset += -(-fields[name].num_bytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES

    for name in ("token_lora_indices", "sampler_indices", "sampler_indices_padded", "embeddings_indices"):
        add(name, np.int64, max_tokens)
    for kind in ("token", "prompt"):
        add(f"{kind}.slots", np.int32, max_tokens)
        add(f"{kind}.rows", np.int32, max_tokens)
        add(f"{kind}.group_slots", np.int32, num_slots + 1)
        add(f"{kind}.group_counts", np.int32, num_slots + 1)
        add(f"{kind}.group_starts", np.int32, num_slots + 2)
    for size in TILE_SIZES:
        add(f"tiles.{size}", np.int32, max_tiles(max_tokens, num_slots, size), TILE_COLUMNS)
    return fields


def buffer_bytes(fields: dict[str, Field]) -> int:
    return max(field.offset_bytes + field.num_bytes for field in fields.values())


def views(buffer: npt.NDArray[np.uint8], fields: dict[str, Field]) -> Arrays:
    """The arrays inside one buffer."""
    return {
        name: buffer[field.offset_bytes : field.offset_bytes + field.num_bytes]
        .view(field.dtype)
        .reshape(field.shape)
        for name, field in fields.items()
    }


def tensor_views(buffer: torch.Tensor, fields: dict[str, Field]) -> dict[str, torch.Tensor]:
    """`views` of a PyTorch buffer of bytes, on any device."""
    types = {np.dtype(np.int32): torch.int32, np.dtype(np.int64): torch.int64}
    return {
        name: buffer[field.offset_bytes : field.offset_bytes + field.num_bytes]
        .view(types[field.dtype])
        .view(field.shape)
        for name, field in fields.items()
    }


def slots_of(adapter_ids: Sequence[int], adapter_of_slot: Sequence[int | None]) -> npt.NDArray[np.int32]:
    """The slot of each adapter id; -1 for ids up to 0, which mean no adapter."""
    ids = np.asarray(adapter_ids, dtype=np.int64)
    if len(ids) == 0:
        return np.zeros(0, dtype=np.int32)
    # A request's tokens are adjacent: look up each run of equal ids once.
    first = np.flatnonzero(np.concatenate(([True], ids[1:] != ids[:-1])))
    run_ids = ids[first]
    loaded = [(adapter, slot) for slot, adapter in enumerate(adapter_of_slot) if adapter is not None]
    known = np.array(sorted([(0, -1), *loaded]), dtype=np.int64)  # [num_loaded + 1, (id, slot)]
    found = np.searchsorted(known[:, 0], run_ids).clip(max=len(known) - 1)
    missing = (known[found, 0] != run_ids) & (run_ids > 0)
    if missing.any():
        raise KeyError(int(run_ids[missing][0]))
    run_slots = np.where(run_ids > 0, known[found, 1], -1).astype(np.int32)
    return np.repeat(run_slots, np.diff(first, append=len(ids)))


def fill_step(
    arrays: Arrays,
    token_slots: npt.NDArray[np.int32],  # [num_tokens], -1 without adapter
    prompt_slots: npt.NDArray[np.int32],  # [num_sampled_rows]
    max_slots: int,
    vocab_size: int,
) -> None:
    """Write every array for one step. `arrays` come from `views`, and may hold an older step."""
    num_tokens, num_prompts = len(token_slots), len(prompt_slots)
    arrays["token_lora_indices"][:num_tokens] = token_slots
    arrays["embeddings_indices"][:num_tokens] = np.maximum(token_slots, 0).astype(np.int64) * vocab_size
    arrays["sampler_indices"][:num_prompts] = prompt_slots
    padded = np.where(prompt_slots == -1, max_slots - 1, prompt_slots).astype(np.int64)
    arrays["sampler_indices_padded"][:num_prompts] = np.arange(num_prompts) + padded * num_prompts
    _fill_groups(arrays, "prompt", prompt_slots)
    slots, counts, starts = _fill_groups(arrays, "token", token_slots)
    with_adapter = slots >= 0
    for size in TILE_SIZES:
        fill_tile_table(
            arrays[f"tiles.{size}"], size, slots[with_adapter], starts[with_adapter], counts[with_adapter]
        )


def _fill_groups(
    arrays: Arrays, kind: str, slots: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Write the groups of equal slot, -1 first, and return their slots, counts and starts."""
    group_slots, group_counts, group_starts = (
        arrays[f"{kind}.{name}"] for name in ("group_slots", "group_counts", "group_starts")
    )
    group_slots.fill(-1)
    group_counts.fill(0)
    group_starts.fill(0)
    arrays[f"{kind}.slots"][: len(slots)] = slots
    arrays[f"{kind}.rows"][: len(slots)] = np.argsort(
        slots.astype(np.int16),
        kind="stable",  # a radix sort
    )
    counts_by_slot = np.bincount(slots + 1, minlength=len(group_slots))
    used = np.flatnonzero(counts_by_slot)
    counts = counts_by_slot[used].astype(np.int32)
    starts = (np.cumsum(counts) - counts).astype(np.int32)
    used_slots = (used - 1).astype(np.int32)
    if np.any(used_slots >= 0):  # otherwise vLLM leaves these three reset
        group_slots[: len(used)] = used_slots
        group_counts[: len(used)] = counts
        group_starts[1 : len(used) + 1] = np.cumsum(counts)
    return used_slots, counts, starts
