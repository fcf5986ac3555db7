"""Which slots have weights for the logits, followed on vLLM's own layer."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from vllm.lora.layers import LogitsProcessorWithLoRA

from lorikeet.kernels.logits_slots import LogitsSlots

NUM_SLOTS, RANK, HIDDEN, VOCABULARY = 3, 4, 8, 16


@pytest.fixture
def layer() -> LogitsProcessorWithLoRA:
    """vLLM's layer, without tensor parallelism."""
    layer = LogitsProcessorWithLoRA.__new__(LogitsProcessorWithLoRA)
    torch.nn.Module.__init__(layer)
    layer.base_layer = SimpleNamespace(vocab_size=VOCABULARY)
    layer.hidden_size, layer.device, layer.sharded_to_full_mapping = HIDDEN, "cpu", None
    layer.create_lora_weights(NUM_SLOTS, SimpleNamespace(max_lora_rank=RANK, lora_dtype=torch.float16))
    return layer


def fill(layer: LogitsProcessorWithLoRA, slot: int) -> None:
    layer.set_lora(slot, torch.ones(RANK, HIDDEN).half(), torch.ones(VOCABULARY, RANK).half())


def slots(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.int32)


def test_follows_what_slots_hold(layer: LogitsProcessorWithLoRA) -> None:
    logits_slots = LogitsSlots(layer, NUM_SLOTS)
    assert not logits_slots.any_has_weights(slots(0, 1, 2))
    fill(layer, 1)
    assert layer.lora_b_stacked[1].all(), "vLLM's own work is still done"
    assert logits_slots.any_has_weights(slots(0, 1))
    assert not logits_slots.any_has_weights(slots(0, 2))
    layer.reset_lora(1)
    assert not layer.lora_b_stacked.any()
    assert not logits_slots.any_has_weights(slots(0, 1, 2))


def test_no_slots(layer: LogitsProcessorWithLoRA) -> None:
    logits_slots = LogitsSlots(layer, NUM_SLOTS)
    fill(layer, 0)
    assert not logits_slots.any_has_weights(slots())
