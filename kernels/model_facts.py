"""What decides which kernels a model uses: its vLLM configuration, and the layers that vLLM built for it."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

# Where a layer keeps what computes it.
HOLDERS = ("quant_method", "scheme", "impl", "moe_kernel", "fused_experts", "punica_wrapper")


@dataclass(frozen=True)
class ModelFacts:
    """Plain values, so that the ranks can tell them to each other and tests can write them down."""

    architecture: str
    kernels: frozenset[str]  # names of the classes and backends that the layers hold
    linear_backend: str = "auto"
    moe_backend: str = "auto"
    lora: bool = False
    # What can reach tunable operators in ways that a profile run doesn't show, or that nobody has tried.
    special: tuple[str, ...] = ()

    def holds(self, *words: str) -> bool:
        """Whether a layer's kernel has one of the words in its name, whatever its capitals."""
        return any(word.lower() in name.lower() for name in self.kernels for word in words)


def model_facts(vllm_config: Any, model: Any, pcie_ipc: bool) -> ModelFacts:
    """Collect the facts from vLLM's configuration and a loaded model.

    Raises:
        AttributeError: vLLM's configuration is not what it was; what to do is the caller's decision.
    """
    model_config, kernels = vllm_config.model_config, vllm_config.kernel_config
    return ModelFacts(
        architecture=str(model_config.architecture),
        kernels=frozenset(kernel_names(model)),
        linear_backend=str(kernels.linear_backend),
        moe_backend=str(kernels.moe_backend),
        lora=vllm_config.lora_config is not None,
        special=tuple(_special(vllm_config, pcie_ipc)),
    )


def _special(vllm_config: Any, pcie_ipc: bool) -> Iterator[str]:
    model, parallel = vllm_config.model_config, vllm_config.parallel_config
    conditions = {
        "moe": model.is_moe,
        "mla": model.use_mla,
        "speculative_decoding": vllm_config.speculative_config is not None,
        "multimodal": model.is_multimodal_model,
        "hybrid": model.is_hybrid or model.is_attention_free,
        "data_parallel": parallel.data_parallel_size > 1,
        "elastic_ep": parallel.enable_elastic_ep,
        "sleep_mode": model.enable_sleep_mode,
        "pcie_ipc": pcie_ipc,
        "compile_sizes": bool(vllm_config.compilation_config.compile_sizes),  # run after the decision
    }
    return (name for name, holds in conditions.items() if holds)


def kernel_names(model: Any) -> Iterator[str]:
    """The class of everything that computes a layer, and the backends that these name."""
    for module in model.modules():
        for holder in HOLDERS:
            held = getattr(module, holder, None)
            if held is not None:
                yield type(held).__name__
                yield from _parts(held)


def _parts(held: Any) -> Iterator[str]:
    for value in vars(held).values() if hasattr(held, "__dict__") else ():
        if isinstance(value, Enum):
            yield value.name
        elif isinstance(value, type):
            yield value.__name__
        elif type(value).__module__.startswith("vllm."):
            yield type(value).__name__
