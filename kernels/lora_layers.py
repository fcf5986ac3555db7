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
    if not has_our_wrapper(module):
        return False
    from lorikeet.kernels.punica_wrapper import supports

    lora_a = module.lora_a_stacked
    return supports(lora_a[0], lora_a, module.lora_b_stacked)


def has_our_wrapper(module: Any) -> bool:
    wrapper = type(getattr(module, "punica_wrapper", None))
    return f"{wrapper.__module__}.{wrapper.__qualname__}" == OUR_WRAPPER


def watch_logits_layer(model: torch.nn.Module) -> None:
    """Leave out the logits' LoRA where it adds nothing; call it before any adapter is loaded."""
    if any(map(has_our_wrapper, model.modules())):
        from lorikeet.kernels.inherited_layers import watch_logits

        watch_logits(model)


def warm_up_inherited_layers(model: torch.nn.Module, vllm_config: Any) -> int:
    """Compile what vLLM's own kernels need for embeddings and logits, and return the number of launches."""
    if not any(map(has_our_wrapper, model.modules())):
        return 0
    from lorikeet.kernels.inherited_layers import warm_up_inherited

    scheduler = vllm_config.scheduler_config
    return warm_up_inherited(model, scheduler.max_num_batched_tokens, scheduler.max_num_seqs)


def warm_up_layers(layers: list[Layer], vllm_config: Any) -> int:
    """Compile every variant of our kernels that serving can launch, and return the number of launches."""
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
