"""Which of an adapter's weights the engine has a place for, asked of vLLM's LoRA manager in a worker."""

from typing import Any


def place_of(manager: Any, lora_id: int) -> tuple[list[str], list[str]]:
    """Names of the adapter's modules that this worker uses, and of those that it has no module for.

    vLLM leaves the latter out without a word, and the base model then answers under the adapter's name.
    """
    used: list[str] = []
    left: list[str] = []
    for name in manager.get_adapter(lora_id).loras:
        known = {name, f"model.{name}", name.removesuffix(".base_layer")}  # pooling models; fused experts
        (used if known & manager.modules.keys() else left).append(name)
    return used, left
