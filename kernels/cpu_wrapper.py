"""vLLM's LoRA wrapper for CPUs, kept from giving rows without an adapter the last slot's."""

from typing import Any

import torch
from vllm.lora.punica_wrapper.punica_cpu import PunicaWrapperCPU


class CpuPunicaWrapper(PunicaWrapperCPU):  # type: ignore[misc]
    """A row without adapter has the index -1, by which the CPU operators take the last slot's weights.

    Seen once every slot holds an adapter: base requests beside adapters then answer as the last slot's. Such
    rows are zeroed on their way into LoRA, so that what is added to them is zero.
    """

    def add_lora_linear(
        self, y: torch.Tensor, x: torch.Tensor, *arguments: Any, **options: Any
    ) -> torch.Tensor | None:
        """`y += (x·Aᵀ)·Bᵀ` for the rows that have an adapter."""
        x = x.view(-1, x.shape[-1])
        return super().add_lora_linear(y, self._zero(x, self.token_lora_indices), *arguments, **options)

    def add_lora_embedding(
        self, y: torch.Tensor, x: torch.Tensor, *arguments: Any, **options: Any
    ) -> torch.Tensor | None:
        """`y += x·Bᵀ` for the rows that have an adapter; x is A's lookup."""
        return super().add_lora_embedding(y, self._zero(x, self.token_lora_indices), *arguments, **options)

    def add_lora_logits(
        self, y: torch.Tensor, x: torch.Tensor, *arguments: Any, **options: Any
    ) -> torch.Tensor | None:
        """`y += (x·Aᵀ)·Bᵀ` for the sampled rows that have an adapter."""
        x = x.view(-1, x.shape[-1])
        return super().add_lora_logits(y, self._zero(x, self.sampler_indices), *arguments, **options)

    def _zero(self, x: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
        """`x` [num_rows, …] with zeros where `slots` [num_rows] is -1."""
        return x.masked_fill((slots[: x.shape[0]] < 0).unsqueeze(-1), 0)
