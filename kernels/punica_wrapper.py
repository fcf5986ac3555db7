"""vLLM's LoRA wrapper with our operator for linear layers and metadata built without waiting.

What is not ours is inherited: embeddings, logits, fully sharded layers, experts. They read the same
tensors as ever, which here are views of one device buffer that one copy a step fills.
"""

from typing import Any

import numpy as np
import torch
from vllm.lora.layers import LoRAMapping
from vllm.lora.punica_wrapper.punica_gpu import PunicaWrapperGPU

import lorikeet.kernels.lora_linear  # noqa: F401  # registers the operator
from lorikeet.kernels import step_tables
from lorikeet.kernels.logits_slots import LogitsSlots
from lorikeet.kernels.pinned_ring import PinnedRing
from lorikeet.kernels.tile_table import TILE_SIZES

SUPPORTED_DTYPES = (torch.float16, torch.bfloat16)

# Our arrays for vLLM's metadata attributes.
_META_FIELDS = {
    "token_lora_mapping": "slots",
    "token_indices_sorted_by_lora_ids": "rows",
    "active_lora_ids": "group_slots",
    "num_tokens_per_lora": "group_counts",
    "lora_token_start_loc": "group_starts",
}
_BASE_FIELDS = ("token_lora_indices", "sampler_indices", "sampler_indices_padded", "embeddings_indices")


class LorikeetPunicaWrapper(PunicaWrapperGPU):  # type: ignore[misc]  # final to type checkers only
    logits_slots: LogitsSlots | None = None  # None: every adapter may have weights for the logits

    def __init__(
        self, max_num_batched_tokens: int, max_batches: int, device: torch.device | str, **kwargs: Any
    ) -> None:
        super().__init__(max_num_batched_tokens, max_batches, device, **kwargs)
        fields = step_tables.layout(max_num_batched_tokens, self.max_loras)
        buffer = torch.zeros(step_tables.buffer_bytes(fields), dtype=torch.uint8, device=device)
        self._ring = PinnedRing(buffer, fields)
        tensors = step_tables.tensor_views(buffer, fields)
        for name in _BASE_FIELDS:
            setattr(self, f"_{name}", tensors[name])
        for kind, meta in (("token", self.token_mapping_meta), ("prompt", self.prompt_mapping_meta)):
            for attribute, field in _META_FIELDS.items():
                setattr(meta, attribute, tensors[f"{kind}.{field}"])
            # Inherited operators size their grid by it. The rows without adapter are a group as well, which
            # the number of active adapters leaves out: with --specialize-active-lora stock loses one.
            meta.num_active_loras_cpu.fill_(self.max_loras + 1)
        self.tile_tables = [tensors[f"tiles.{size}"] for size in TILE_SIZES]
        self.rows = self.token_mapping_meta.token_indices_sorted_by_lora_ids
        self._prompt_slots = np.zeros(0, dtype=np.int32)  # slots of the rows that logits are computed for

    def update_metadata(
        self,
        mapping: LoRAMapping,
        lora_index_to_id: list[int | None],
        max_loras: int,
        vocab_size: int,
        **kwargs: Any,
    ) -> None:
        """Fill the same tensors as vLLM's own, and ours, from the host: one copy, no synchronisation."""
        self.is_prefill = mapping.is_prefill
        token_slots = step_tables.slots_of(mapping.index_mapping, lora_index_to_id)
        prompt_slots = step_tables.slots_of(mapping.prompt_mapping, lora_index_to_id)
        step_tables.fill_step(self._ring.acquire(), token_slots, prompt_slots, max_loras, vocab_size)
        self._ring.copy()
        self.indices_len[:] = [len(token_slots), len(prompt_slots), len(prompt_slots), len(token_slots)]
        self.token_mapping_meta.no_lora_flag_cpu.fill_(not (token_slots >= 0).any())
        self._prompt_slots = np.unique(prompt_slots[prompt_slots >= 0])
        self.prompt_mapping_meta.no_lora_flag_cpu.fill_(len(self._prompt_slots) == 0)

    def add_lora_linear(
        self,
        y: torch.Tensor,
        x: torch.Tensor,
        lora_a_stacked: tuple[torch.Tensor, ...],
        lora_b_stacked: tuple[torch.Tensor, ...],
        scale: float,
        output_slices: tuple[int, ...],
        *,
        buffer: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> None:
        """y (+)= x · Aᵀ · Bᵀ by slot, in place; y keeps its rows without adapter."""
        if scale != 1.0 or buffer is not None or not supports(x, lora_a_stacked, lora_b_stacked):
            super().add_lora_linear(
                y, x, lora_a_stacked, lora_b_stacked, scale, output_slices, buffer=buffer, **kwargs
            )
            return
        torch.ops.lorikeet.lora_linear(
            y.view(-1, y.shape[-1]),
            x.view(-1, x.shape[-1]),
            lora_a_stacked,
            lora_b_stacked,
            self.tile_tables,
            self.rows,
            self.token_mapping_meta.no_lora_flag_cpu,
            kwargs.get("add_inputs", True),
        )

    def add_lora_logits(self, *args: Any, **kwargs: Any) -> None:
        """vLLM's own, where an adapter of this step has weights for the logits; runs outside of graphs."""
        if self.logits_slots is None or self.logits_slots.any_has_weights(self._prompt_slots):
            super().add_lora_logits(*args, **kwargs)


def supports(
    x: torch.Tensor, lora_a_stacked: tuple[torch.Tensor, ...], lora_b_stacked: tuple[torch.Tensor, ...]
) -> bool:
    """Whether the operator takes these weights; decided by what is fixed when vLLM traces the layer."""
    weights = (*lora_a_stacked, *lora_b_stacked)
    return x.dtype in SUPPORTED_DTYPES and all(w.dtype == x.dtype and w.dim() == 4 for w in weights)
