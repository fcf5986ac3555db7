"""Whether vLLM still looks as our wrapper expects, by signature, before anything of ours is installed.

Annotations are left out: their text differs between Python versions.
"""

import dataclasses
import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

MISSING = "missing"
_WRAPPER = "vllm.lora.punica_wrapper.punica_gpu:PunicaWrapperGPU"
_BASE_WRAPPER = "vllm.lora.punica_wrapper.punica_base:PunicaWrapperBase"
_META = "vllm.lora.ops.triton_ops.lora_kernel_metadata:LoRAKernelMeta"
_LINEAR = "vllm.lora.layers.base_linear:BaseLinearLayerWithLoRA"
_LOGITS = "vllm.lora.layers.logits_processor:LogitsProcessorWithLoRA"

# Seam -> what vLLM 0.32.0 has: a call's parameters, a data class's fields, or names that a body uses.
EXPECTED: Mapping[str, str] = {
    "vllm.platforms.interface:Platform.get_punica_wrapper": "()",
    f"{_WRAPPER}.__init__": "(self, max_num_batched_tokens, max_batches, device, **kwargs)",
    f"{_WRAPPER}.update_metadata": "(self, mapping, lora_index_to_id, max_loras, vocab_size, **kwargs)",
    f"{_WRAPPER}.add_shrink": "(self, y, x, lora_a_stacked, scale, **kwargs)",
    f"{_WRAPPER}.add_expand": (
        "(self, y, x, lora_b_stacked, output_slices, offset_start=0, add_inputs=True, **kwargs)"
    ),
    f"{_WRAPPER}.add_lora_embedding": "(self, y, x, lora_b_stacked, add_inputs=True, **kwargs)",
    f"{_WRAPPER}.add_lora_linear": (
        "(self, y, x, lora_a_stacked, lora_b_stacked, scale, output_slices, *, buffer=None, **kwargs)"
    ),
    f"{_WRAPPER}.add_lora_logits": (
        "(self, y, x, lora_a_stacked, lora_b_stacked, scale, *, buffer=None, **kwargs)"
    ),
    f"{_META}.make": "(max_loras, max_num_tokens, device, captured_lora_counts=None)",
    f"{_META}.meta_args": "(self, token_nums, specialize_active_lora)",
    f"{_META}#fields": (
        "token_lora_mapping token_indices_sorted_by_lora_ids active_lora_ids num_tokens_per_lora "
        "lora_token_start_loc no_lora_flag_cpu num_active_loras_cpu default_num_active_loras_cpu "
        "captured_lora_counts"
    ),
    "vllm.lora.layers:LoRAMapping#fields": "index_mapping prompt_mapping is_prefill type",
    f"{_LINEAR}._apply_lora_to_output": "(self, x, output)",
    f"{_LINEAR}._apply_lora_to_output#uses": "punica_wrapper add_lora_linear lora_a_stacked lora_b_stacked",
    f"{_LOGITS}.set_lora": "(self, index, lora_a, lora_b)",
    f"{_LOGITS}.set_lora#uses": "reset_lora lora_a_stacked lora_b_stacked",
    f"{_LOGITS}.reset_lora": "(self, index)",
    f"{_LOGITS}._get_logits#uses": "punica_wrapper add_lora_logits lora_a_stacked lora_b_stacked",
    f"{_BASE_WRAPPER}.__init__#uses": (
        "_token_lora_indices _sampler_indices _sampler_indices_padded _embeddings_indices indices_len"
    ),
    f"{_WRAPPER}.__init__#uses": "lora_config max_loras token_mapping_meta prompt_mapping_meta",
}


@dataclass(frozen=True)
class Seam:
    name: str
    ok: bool
    got: str
    expected: str


def check_seams(
    expected: Mapping[str, str] = EXPECTED, resolve: Callable[[str], Any] | None = None
) -> list[Seam]:
    """One line for each place of vLLM that our wrapper relies on."""
    resolve = resolve or find
    seams = []
    for name, wanted in expected.items():
        path, _, aspect = name.partition("#")
        try:
            got = describe(resolve(path), aspect, wanted)
        except (ImportError, AttributeError, TypeError, ValueError) as exc:
            got = f"{MISSING}: {exc}"
        seams.append(Seam(name, got == wanted, got, wanted))
    return seams


def find(path: str) -> Any:
    """The object at `module:attribute.attribute`."""
    module, _, attributes = path.partition(":")
    target: Any = importlib.import_module(module)
    for attribute in attributes.split("."):
        target = getattr(target, attribute)
    return target


def describe(target: Any, aspect: str, wanted: str) -> str:
    """The target in the words of `EXPECTED`."""
    if aspect == "fields":
        return " ".join(field.name for field in dataclasses.fields(target))
    if aspect == "uses":
        return " ".join(name for name in wanted.split() if name in target.__code__.co_names)
    return parameters(target)


def parameters(call: Any) -> str:
    """A signature's names, kinds and defaults, without annotations."""
    signature = inspect.signature(call)
    bare = [
        parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()
    ]
    return str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))
