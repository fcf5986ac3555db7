"""Layers whose LoRA stays with vLLM's own kernels: compiled ahead, left out where they add nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from vllm.lora.layers import LogitsProcessorWithLoRA, VocabParallelEmbeddingWithLoRA
from vllm.lora.punica_wrapper.punica_gpu import PunicaWrapperGPU

from lorikeet.kernels.config import TOKEN_BUCKETS
from lorikeet.kernels.logits_slots import LogitsSlots
from lorikeet.kernels.punica_wrapper import LorikeetPunicaWrapper

# vLLM's kernels are compiled anew for 1 row, for multiples of 16 and for the rest, for products of rows and
# rank that are multiples of 16, and where its block sizes change with the number of rows.
_OFFSETS = (0, 1, 2, 3, 4, 8)


def watch_logits(model: torch.nn.Module) -> None:
    """Have our wrapper know which adapters have weights for the logits; before any adapter is loaded."""
    for layer in _layers(model, LogitsProcessorWithLoRA):
        layer.punica_wrapper.logits_slots = LogitsSlots(layer, len(layer.lora_a_stacked))


def warm_up_inherited(model: torch.nn.Module, max_tokens: int, max_rows: int) -> int:
    """Launch each variant for embeddings of `max_tokens` tokens and logits of `max_rows` rows, and count.

    No row has an adapter: nothing is computed.
    """
    num_launches = 0
    for layer in _layers(model, VocabParallelEmbeddingWithLoRA):
        wrapper, b = layer.punica_wrapper, layer.lora_b_stacked
        with _no_groups(wrapper.token_mapping_meta):
            for num_tokens in _row_counts(max_tokens):
                y, x = b.new_empty(num_tokens, b.shape[2]), b.new_empty(num_tokens, b.shape[3])
                wrapper.add_lora_embedding(y, x, b, add_inputs=True)
                num_launches += 1
    for layer in _layers(model, LogitsProcessorWithLoRA):
        wrapper, a, b = layer.punica_wrapper, layer.lora_a_stacked, layer.lora_b_stacked
        y_dtype = layer.base_layer.head_dtype or b.dtype
        with _no_groups(wrapper.prompt_mapping_meta):
            for num_rows in _row_counts(max_rows):
                y, x = b.new_empty(num_rows, b.shape[2], dtype=y_dtype), a.new_empty(num_rows, a.shape[3])
                PunicaWrapperGPU.add_lora_logits(wrapper, y, x, a, b, 1.0)
                num_launches += 1
    return num_launches


def _layers(model: torch.nn.Module, kind: type[Any]) -> list[Any]:
    """The model's layers of that kind that our wrapper serves."""
    return [
        module
        for module in model.modules()
        if isinstance(module, kind) and isinstance(module.punica_wrapper, LorikeetPunicaWrapper)
    ]


def _row_counts(limit: int) -> list[int]:
    counts = {bucket + offset for bucket in (0, *TOKEN_BUCKETS) for offset in _OFFSETS}
    return sorted(count for count in counts if 1 <= count <= limit)


@contextmanager
def _no_groups(meta: Any) -> Iterator[None]:
    """vLLM's metadata as in a step with adapters, but with no group of rows to work on."""
    slots, flag = meta.active_lora_ids.clone(), meta.no_lora_flag_cpu.clone()
    meta.active_lora_ids.fill_(-1)
    meta.no_lora_flag_cpu.fill_(False)
    try:
        yield
    finally:
        meta.active_lora_ids.copy_(slots)
        meta.no_lora_flag_cpu.copy_(flag)
