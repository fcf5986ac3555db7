"""Facts read from vLLM's real configuration classes, and from layers as vLLM builds them."""

from enum import Enum
from types import SimpleNamespace

import pytest
import torch
from vllm.config import (
    CompilationConfig,
    KernelConfig,
    LoRAConfig,
    ModelConfig,
    ParallelConfig,
    VllmConfig,
)

from lorikeet.kernels.model_facts import kernel_names, model_facts


class Backend(Enum):
    FLASHINFER_TRTLLM = 1


class FakeMethod:
    """As a quantisation method: what it computes with is a class, an enum's member or an object of vLLM's."""

    def __init__(self) -> None:
        self.backend = Backend.FLASHINFER_TRTLLM
        self.experts_cls = SimpleNamespace
        self.kernel = KernelConfig()
        self.flag = True


def vllm_config(**changes) -> SimpleNamespace:
    model = SimpleNamespace(
        architecture="LlamaForCausalLM", is_moe=False, use_mla=False, is_multimodal_model=False,
        is_hybrid=False, is_attention_free=False, enable_sleep_mode=False,
    )  # fmt: skip
    for name, value in changes.get("model", {}).items():
        setattr(model, name, value)
    return SimpleNamespace(
        model_config=model,
        kernel_config=KernelConfig(),
        lora_config=changes.get("lora", LoRAConfig(max_lora_rank=16, max_loras=2)),
        speculative_config=changes.get("speculative"),
        parallel_config=ParallelConfig(),
        compilation_config=changes.get("compilation", CompilationConfig()),
    )


@pytest.fixture
def model() -> torch.nn.Module:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    model[1].quant_method = FakeMethod()
    return model


def test_a_plain_dense_model(model: torch.nn.Module) -> None:
    facts = model_facts(vllm_config(), model, pcie_ipc=False)
    assert (facts.architecture, facts.special, facts.lora) == ("LlamaForCausalLM", (), True)
    assert (facts.linear_backend, facts.moe_backend) == ("auto", "auto")
    assert facts.kernels == {"FakeMethod", "FLASHINFER_TRTLLM", "SimpleNamespace", "KernelConfig"}


@pytest.mark.parametrize(
    ("changes", "special"),
    [
        ({"model": {"is_moe": True}}, "moe"),
        ({"model": {"use_mla": True}}, "mla"),
        ({"model": {"is_multimodal_model": True}}, "multimodal"),
        ({"model": {"is_hybrid": True}}, "hybrid"),
        ({"model": {"is_attention_free": True}}, "hybrid"),
        ({"model": {"enable_sleep_mode": True}}, "sleep_mode"),
        ({"speculative": object()}, "speculative_decoding"),
        ({"compilation": CompilationConfig(compile_sizes=[64])}, "compile_sizes"),
    ],
)
def test_special_parts(changes: dict, special: str, model: torch.nn.Module) -> None:
    assert model_facts(vllm_config(**changes), model, pcie_ipc=False).special == (special,)


def test_pcie(model: torch.nn.Module) -> None:
    assert model_facts(vllm_config(), model, pcie_ipc=True).special == ("pcie_ipc",)


def test_every_attribute_exists_in_vllms_own_classes() -> None:
    """The configuration above is staged, so that its names must be vLLM's."""
    for name in (
        "architecture",
        "is_moe",
        "use_mla",
        "is_multimodal_model",
        "is_hybrid",
        "is_attention_free",
    ):
        assert isinstance(getattr(ModelConfig, name), property), name
    assert "enable_sleep_mode" in ModelConfig.__dataclass_fields__
    for name in ("model_config", "kernel_config", "lora_config", "speculative_config", "parallel_config",
                 "compilation_config"):  # fmt: skip
        assert name in VllmConfig.__dataclass_fields__, name


def test_a_configuration_that_lost_something_is_noticed(model: torch.nn.Module) -> None:
    config = vllm_config()
    del config.model_config.use_mla
    with pytest.raises(AttributeError, match="use_mla"):
        model_facts(config, model, pcie_ipc=False)


def test_a_model_without_kernels() -> None:
    assert list(kernel_names(torch.nn.Linear(2, 2))) == []
