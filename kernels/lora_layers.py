"""The layers of a loaded model that run on our kernels: compiled before serving, and proven to be called."""

from typing import Any

import torch

from lorikeet.kernels.choice import OUR_WRAPPER

Weights = tuple[torch.Tensor, ...]
Layer = tuple[Weights, Weights]  # A and B of every slice, [num_slots, 1, R, K] and [num_slots, 1, N, R]


class KernelsBypassedError(RuntimeError):
    """Our kernels were chosen and vLLM's graphs call others."""


def our_layers(model: torch.nn.Module, vllm_config: Any) -> list[Layer]:
    """The linear layers whose LoRA our wrapper computes; none where vLLM's own kernels were chosen."""
    lora_config = vllm_config.lora_config
    if lora_config is None or lora_config.fully_sharded_loras:  # sharded layers call the inherited operators
        return []
    from vllm.lora.layers.base_linear import BaseLinearLayerWithLoRA

    return [
        (module.lora_a_stacked, module.lora_b_stacked)
        for module in model.modules()
        if isinstance(module, BaseLinearLayerWithLoRA) and is_ours(module)
    ]


def is_ours(module: Any) -> bool:
    wrapper = type(module.punica_wrapper)
    if f"{wrapper.__module__}.{wrapper.__qualname__}" != OUR_WRAPPER:
        return False
    from lorikeet.kernels.punica_wrapper import supports

    lora_a = module.lora_a_stacked
    return supports(lora_a[0], lora_a, module.lora_b_stacked)


def warm_up_layers(layers: list[Layer], vllm_config: Any) -> int:
    """Compile every variant that serving can launch, and return the number of launches."""
    if not layers:
        return 0
    import vllm.envs

    from lorikeet.kernels.warm_up import warm_up

    # With two streams vLLM asks for the delta alone and adds it itself.
    add_inputs = [True, False] if vllm.envs.VLLM_LORA_ENABLE_DUAL_STREAM else [True]
    return warm_up(layers, vllm_config.scheduler_config.max_num_batched_tokens, add_inputs)


def check_called(layers: list[Layer]) -> int:
    """How often vLLM ran our operator while it warmed up, graph captures included.

    Raises:
        KernelsBypassedError: never, though layers are ours.
    """
    if not layers:
        return 0
    from lorikeet.kernels.lora_linear import calls

    num_calls = calls["lora_linear"]
    if num_calls == 0:
        raise KernelsBypassedError(
            f"{len(layers)} layers have Lorikeet's LoRA kernels and vLLM's graphs never called them: "
            "the compile cache holds graphs of another installation; empty VLLM_CACHE_ROOT, or set "
            "LORIKEET_KERNELS=off"
        )
    return num_calls
