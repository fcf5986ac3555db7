"""The base model as adapters see it: its modules with their shapes, read from its configuration."""

import copy
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lorikeet.serve.errors import LorikeetError


class BaseModelError(LorikeetError):
    """The base model's configuration can't be read."""


@dataclass(frozen=True)
class Module:
    """A module that LoRA can stand beside; y = x·Wᵀ of [out_size, in_size], or a lookup of in_size rows."""

    kind: Literal["linear", "embedding"]
    in_size: int
    out_size: int


@dataclass(frozen=True)
class BaseModel:
    """What adapters are checked against.

    Args:
        names: what an adapter may call it in `base_model_name_or_path`.
        modules: name → module; None where transformers doesn't know the model, and shapes go unchecked.
        max_value: the largest number that the served data type holds.
        is_whole: whether an adapter must have tensors for every module that its targets name. Not so where
            the targets can mean modules of other parts: a vision tower's, or experts'.
    """

    names: frozenset[str]
    modules: Mapping[str, Module] | None
    max_value: float
    is_whole: bool


def read_base_model(model: str) -> BaseModel:
    """Read `model`, a folder or a hub's name, as `lorikeet check` needs it.

    Raises:
        BaseModelError: it has no configuration that transformers can read.
    """
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(model)
    except (OSError, ValueError) as exc:
        raise BaseModelError(f"no base model in {model}: {str(exc).splitlines()[0]}") from exc
    return describe_base_model(config, model_names(model), str(getattr(config, "dtype", None) or "float32"))


def describe_base_model(hf_config: Any, names: set[str], dtype: str) -> BaseModel:
    """Describe the model that transformers' configuration object names, served in `dtype`."""
    import torch

    modules = _modules(hf_config)
    if modules is not None:
        modules |= {alias: module for name, module in modules.items() for alias in _aliases(name)}
    is_composite = any(hasattr(hf_config, part) for part in ("text_config", "vision_config", "audio_config"))
    has_experts = modules is not None and any(".experts." in name for name in modules)
    dtype = dtype.removeprefix("torch.")
    return BaseModel(
        names=frozenset(short_name(name) for name in names),
        modules=modules,
        max_value=float(torch.finfo(getattr(torch, dtype)).max),
        is_whole=not (is_composite or has_experts),
    )


def model_names(model: str) -> set[str]:
    """`model` itself, and what its config.json says that it was called where it was made."""
    names = {model}
    with suppress(OSError, ValueError, AttributeError):
        raw = json.loads((Path(model) / "config.json").read_text())
        names |= {name for name in [raw.get("_name_or_path")] if isinstance(name, str) and name}
    return names


def short_name(name: str) -> str:
    """The last part of a path or a hub's name, in small letters: all that survives a move of the files."""
    return Path(name.rstrip("/")).name.lower()


def _modules(hf_config: Any) -> dict[str, Module] | None:
    """Build the model on torch's meta device, which allocates nothing, and list its modules."""
    import torch
    import transformers

    architectures = getattr(hf_config, "architectures", None) or ()
    model_class = next((c for a in architectures if (c := getattr(transformers, a, None))), None)
    if model_class is None:
        return None
    try:
        with torch.device("meta"):
            model = model_class(copy.deepcopy(hf_config))
    except Exception:  # whatever a model's own code raises on a configuration that isn't quite its own
        return None
    return dict(_walk(model))


def _aliases(name: str) -> Iterator[str]:
    """Names that a multimodal model's language part had in other versions of transformers.

    vLLM knows them, and says after the load which it has a place for.
    """
    _, separator, inner = name.partition("language_model.")
    if separator:
        inner = inner.removeprefix("model.")
        yield from (f"model.{inner}", f"language_model.model.{inner}", f"model.language_model.{inner}")


def _walk(model: Any) -> Iterator[tuple[str, Module]]:
    from torch import nn

    for name, module in model.named_modules():
        parameters = dict(module.named_parameters(recurse=False))
        weight = parameters.get("weight")
        if isinstance(module, nn.Embedding):
            yield name, Module("embedding", *module.weight.shape)
        elif type(module).__name__ == "Conv1D":  # GPT-2's: a linear with its weight transposed
            yield name, Module("linear", *parameters["weight"].shape)
        elif weight is not None and weight.ndim == 2:
            yield name, Module("linear", weight.shape[1], weight.shape[0])
        elif parameters and all(parameter.ndim == 3 for parameter in parameters.values()):
            yield from _experts(name, parameters, model.config)


def _experts(name: str, parameters: dict[str, Any], config: Any) -> Iterator[tuple[str, Module]]:
    """Experts that transformers keeps as one tensor, under the names that each had of its own."""
    down = parameters.get("down_proj")
    if down is None:
        return
    hidden = getattr(config, "hidden_size", down.shape[1])
    (inner,) = set(down.shape[1:]) - {hidden} or {hidden}
    for expert in range(down.shape[0]):
        for names, shape in ((("gate_proj", "up_proj", "w1", "w3"), (hidden, inner)),
                             (("down_proj", "w2"), (inner, hidden))):  # fmt: skip
            for part in names:
                yield f"{name}.{expert}.{part}", Module("linear", *shape)
