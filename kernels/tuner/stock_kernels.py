"""vLLM's own LoRA kernels with block sizes that we choose, as its wrapper calls them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import torch

from lorikeet.kernels.synthetic import Problem, Step
from lorikeet.kernels.tuner.search import AnyPair
from lorikeet.kernels.tuner.stock_space import StockExpand, StockShrink


class StockKernels:
    """Adds to y what PunicaWrapperGPU.add_lora_linear adds."""

    def __init__(self) -> None:
        self._metas: dict[int, tuple[Step, Any]] = {}  # by identity of the step, which stays alive with it

    def launch(self, problem: Problem, pair: AnyPair) -> None:
        from vllm.lora.ops.triton_ops import lora_expand, lora_shrink

        num_tokens, rank = problem.x.shape[0], problem.lora_a[0].shape[2]
        meta = self._meta(problem)
        args = meta.meta_args(num_tokens, False)
        buffer = torch.empty(
            (len(problem.lora_a), num_tokens, rank), dtype=torch.float32, device=problem.x.device
        )
        with block_sizes(*pair):
            lora_shrink(problem.x, problem.lora_a, buffer, *args, 1.0)
            lora_expand(buffer, problem.lora_b, problem.y, *args, offset_start=0, add_inputs=True)

    def _meta(self, problem: Problem) -> Any:
        from vllm.lora.ops.triton_ops import LoRAKernelMeta, utils

        step = problem.step
        if id(step) not in self._metas:
            # It remembers strides by address alone, and weights of another shape may now lie there.
            utils._LORA_A_PTR_DICT.clear()
            utils._LORA_B_PTR_DICT.clear()
            num_slots, num_tokens = problem.lora_a[0].shape[0], problem.x.shape[0]
            meta = LoRAKernelMeta.make(num_slots, num_tokens, device=problem.x.device)
            meta.prepare_tensors(step.slot_of_token)
            if len(self._metas) > 8:
                self._metas.clear()
            self._metas[id(step)] = (step, meta)
        return self._metas[id(step)][1]


@contextmanager
def block_sizes(shrink: StockShrink | None, expand: StockExpand | None) -> Iterator[None]:
    """Both operators ask for their block sizes by a name that their modules import."""
    from vllm.lora.ops.triton_ops import lora_expand_op, lora_shrink_op

    modules = (lora_shrink_op, lora_expand_op)
    asked = [module.get_lora_op_configs for module in modules]
    for module, config in zip(modules, (shrink, expand), strict=True):
        if config is not None:
            module.get_lora_op_configs = _always(asdict(config))
    try:
        yield
    finally:
        for module, function in zip(modules, asked, strict=True):
            module.get_lora_op_configs = function


def _always(config: dict[str, Any]) -> Callable[..., dict[str, Any]]:
    return lambda *_args, **_kwargs: config
