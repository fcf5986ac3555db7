"""Finding our layers in a model, warming them up, and noticing that they are never called."""

import os
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from vllm.lora.layers.base_linear import BaseLinearLayerWithLoRA
from vllm.lora.punica_wrapper.punica_gpu import PunicaWrapperGPU

from lorikeet.kernels import lora_linear, warm_up
from lorikeet.kernels.lora_layers import KernelsBypassedError, check_called, our_layers, warm_up_layers
from lorikeet.kernels.punica_wrapper import LorikeetPunicaWrapper
from lorikeet.kernels.synthetic import make_weights


class LoraLinear(BaseLinearLayerWithLoRA):  # type: ignore[misc]
    """vLLM's layer as it is after its weights were made, without the base layer."""

    def __init__(self, wrapper: type, dtype: torch.dtype = torch.float16) -> None:
        torch.nn.Module.__init__(self)
        self.punica_wrapper = object.__new__(wrapper)
        self.lora_a_stacked, self.lora_b_stacked = make_weights(64, (32,), 8, 2, dtype, "cpu")


def config(lora: bool = True, sharded: bool = False) -> Any:
    return SimpleNamespace(
        lora_config=SimpleNamespace(fully_sharded_loras=sharded) if lora else None,
        scheduler_config=SimpleNamespace(max_num_batched_tokens=100),
    )


def model(*layers: torch.nn.Module) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Sequential(*layers))


def test_finds_the_layers_that_our_wrapper_computes() -> None:
    ours = LoraLinear(LorikeetPunicaWrapper)
    theirs = [LoraLinear(PunicaWrapperGPU), LoraLinear(LorikeetPunicaWrapper, torch.float32)]
    assert our_layers(model(ours, *theirs), config()) == [(ours.lora_a_stacked, ours.lora_b_stacked)]


@pytest.mark.parametrize("other", [config(lora=False), config(sharded=True)], ids=["no-lora", "sharded"])
def test_none_where_vllm_calls_no_operator_of_ours(other: Any) -> None:
    assert our_layers(model(LoraLinear(LorikeetPunicaWrapper)), other) == []


@pytest.mark.parametrize(("dual_stream", "add_inputs"), [("0", [True]), ("1", [True, False])])
def test_warms_up_what_the_streams_ask_for(
    dual_stream: str, add_inputs: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def record(layers: Any, *limits: Any) -> int:
        asked.append((layers, *limits))
        return 7

    monkeypatch.setattr(warm_up, "warm_up", record)
    monkeypatch.setitem(os.environ, "VLLM_LORA_ENABLE_DUAL_STREAM", dual_stream)
    layers = our_layers(model(LoraLinear(LorikeetPunicaWrapper)), config())
    assert warm_up_layers(layers, config()) == 7
    assert asked == [(layers, 100, add_inputs)]


def test_nothing_of_ours_needs_nothing() -> None:
    assert warm_up_layers([], config()) == 0
    assert check_called([]) == 0


def test_warm_up_alone_is_no_proof(monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    monkeypatch.setattr(lora_linear, "calls", Counter())
    layer = make_weights(64, (32,), 8, 2, torch.float16, device)
    assert warm_up_layers([layer], config()) > 0
    with pytest.raises(KernelsBypassedError, match="1 layers have Lorikeet's LoRA kernels"):
        check_called([layer])
    lora_linear.calls["lora_linear"] = 3
    assert check_called([layer]) == 3
