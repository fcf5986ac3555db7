"""Checks one adapter before the engine sees it; folder, API, start-up and `lorikeet check` all call it.

The weights stay on disk: shapes come from the file's header, and values are looked at one tensor at a time.
"""

import math
import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from lorikeet.serve.adapters.base_model import BaseModel, Module, short_name
from lorikeet.serve.adapters.peft_config import CONFIG_FILE, MAX_ALLOWED_RANK, PeftConfig, read_config
from lorikeet.serve.adapters.reason import Reason
from lorikeet.serve.adapters.report import Problem, Report, shown
from lorikeet.serve.adapters.tensor_file import (
    PICKLES,
    TENSOR_FILE,
    TensorFile,
    TensorFileError,
    TensorInfo,
    open_tensors,
)

FLOATING = frozenset({"F16", "BF16", "F32", "F64"})
MAX_NAME = 500  # characters of a tensor's name, which patterns are matched against
MAX_LISTED = 20  # problems of one kind; a wrong base has one for every tensor
LINEAR = re.compile(r"(?:base_model\.model\.)?(?P<module>.+)\.lora_(?P<side>[AB])\.weight", re.DOTALL)
EMBEDDING = re.compile(r"(?:base_model\.model\.)?(?P<module>.+)\.lora_embedding_(?P<side>[AB])", re.DOTALL)
# PEFT saves an unchanged copy of an embedding whose LoRA it trained; the engine leaves it out.
COPIED = re.compile(
    r"(?:base_model\.model\.)?(?P<module>(?:.+\.)?(?:embed_tokens|lm_head))\.base_layer\.weight"
)
OTHER_TENSORS = {  # part of a tensor's name → what it belongs to
    "lora_magnitude_vector": "DoRA",
    "modules_to_save": "whole modules (modules_to_save)",
    ".bias": "biases",
    "trainable_tokens": "trained token embeddings",
}


@dataclass(frozen=True)
class Limits:
    """What the server allows. `max_rank` None: only vLLM's own limit."""

    max_rank: int | None = None
    max_bytes: int = 4 * 1024**3
    strict_base: bool = False


@dataclass
class _Findings:
    """Problems and warnings so far, and which tensors belong to which module."""

    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    pairs: dict[str, dict[str, TensorInfo]] = field(default_factory=lambda: defaultdict(dict))

    def refuse(self, reason: Reason, found: str, remedy: str) -> None:
        if sum(problem.reason is reason for problem in self.problems) < MAX_LISTED:
            self.problems.append(Problem(reason, found, remedy))


def preflight(folder: Path, base: BaseModel | None, limits: Limits) -> Report:
    """Check the PEFT adapter in `folder` against `base` (None: without names and shapes). Raises nothing."""
    findings = _Findings()
    config, problems = read_config(folder)
    findings.problems += problems
    if config:
        _check_config(config, base, limits, findings)
    tensors: list[TensorInfo] = []
    num_bytes = _check_file(folder, limits, findings)
    if num_bytes:
        try:
            with open_tensors(folder / TENSOR_FILE) as file:
                tensors = list(file.tensors())
                _check_tensors(tensors, config, base, findings)
                if config and not findings.problems:  # values are read only where all else is right
                    _check_values(file, config, base, findings)
        except TensorFileError as exc:
            findings.refuse(
                Reason.FORMAT, str(exc), "copy the file again, or save the adapter again with PEFT"
            )
    return Report(
        problems=tuple(findings.problems),
        warnings=tuple(findings.warnings),
        rank=config.max_rank if config else None,
        num_tensors=len(tensors),
        num_bytes=num_bytes,
        num_modules=len(findings.pairs),
    )


def _check_config(config: PeftConfig, base: BaseModel | None, limits: Limits, findings: _Findings) -> None:
    max_rank = limits.max_rank or MAX_ALLOWED_RANK
    if config.max_rank > max_rank:
        findings.refuse(
            Reason.RANK,
            f"rank {config.max_rank} is above the limit of {max_rank}",
            f"raise --max-lora-rank (to {MAX_ALLOWED_RANK} at most), or train with a lower rank",
        )
    if base is None:
        findings.warnings.append("no base model was named: module names and shapes are not checked")
        return
    if base.modules is None:
        findings.warnings.append("this base model isn't known to transformers: shapes are not checked")
    elif config.targets:
        for target in config.targets:
            if not any(_is_target(name, target) for name in base.modules):
                findings.refuse(
                    Reason.TENSORS,
                    f"target module '{shown(target)}' is not in the base model",
                    "use an adapter of this base model",
                )
    if config.base_name and short_name(config.base_name) not in base.names:
        served = ", ".join(sorted(base.names))
        text = f"it was trained on '{shown(config.base_name)}' and is served on '{shown(served)}'"
        if limits.strict_base:
            findings.refuse(
                Reason.BASE, text, "serve it on its own base model, or unset LORIKEET_STRICT_BASE"
            )
        else:
            findings.warnings.append(text)


def _check_file(folder: Path, limits: Limits, findings: _Findings) -> int:
    """Refuse what isn't one safetensors file of a bearable size; returns its size, 0 when it is refused."""
    path = folder / TENSOR_FILE
    if not path.is_file():
        pickle = next((name for name in PICKLES if (folder / name).is_file()), None)
        found, remedy = f"{TENSOR_FILE} is missing", f"put it beside {CONFIG_FILE}"
        if pickle:
            found = f"{pickle} is a pickle, which can run code when it is read"
            remedy = "save the adapter again with safe_serialization=True"
        findings.refuse(Reason.FORMAT, found, remedy)
        return 0
    num_bytes = path.stat().st_size
    if num_bytes > limits.max_bytes:
        findings.refuse(
            Reason.SIZE,
            f"{TENSOR_FILE} has {num_bytes} bytes, above the limit of {limits.max_bytes}",
            "raise LORIKEET_MAX_ADAPTER_BYTES",
        )
        return 0
    if num_bytes == 0:
        findings.refuse(Reason.FORMAT, f"{TENSOR_FILE} is empty", "copy the file again")
    return num_bytes


def _check_tensors(
    tensors: list[TensorInfo], config: PeftConfig | None, base: BaseModel | None, findings: _Findings
) -> None:
    for tensor in tensors:
        _sort_tensor(tensor, base, findings)
    if not findings.pairs:
        findings.refuse(Reason.TENSORS, "no LoRA tensors are in the file", "save the adapter again with PEFT")
    modules = base.modules if base else None
    for name, sides in findings.pairs.items():
        for side in "AB":
            if side not in sides:
                findings.refuse(
                    Reason.TENSORS, f"'{shown(name)}' has no lora_{side}", "save the adapter again with PEFT"
                )
        if modules is not None and name not in modules:
            findings.refuse(
                Reason.TENSORS,
                f"'{shown(name)}' is not a module of the base model",
                "use an adapter of this base model, with the names that PEFT gives",
            )
        elif config:
            _check_shapes(name, sides, config.rank_of(name), modules[name] if modules else None, findings)
    if config and base and not findings.problems:
        _check_whole(config, base, findings)


def _sort_tensor(tensor: TensorInfo, base: BaseModel | None, findings: _Findings) -> None:
    """Put one tensor with its module, or refuse it."""
    if tensor.dtype not in FLOATING:
        findings.refuse(
            Reason.DTYPE,
            f"'{shown(tensor.name)}' is {shown(tensor.dtype)}; allowed are {', '.join(sorted(FLOATING))}",
            "save the adapter in a floating type",
        )
    match = LINEAR.fullmatch(tensor.name) or EMBEDDING.fullmatch(tensor.name)
    if match and len(tensor.name) <= MAX_NAME:
        sides = findings.pairs[match["module"]]
        if match["side"] in sides:
            findings.refuse(
                Reason.TENSORS, f"'{shown(tensor.name)}' is there twice", "save the adapter again with PEFT"
            )
        sides[match["side"]] = tensor
        return
    copied = COPIED.fullmatch(tensor.name)
    module = base.modules.get(copied["module"]) if copied and base and base.modules else None
    if module and tensor.shape in ((module.in_size, module.out_size), (module.out_size, module.in_size)):
        findings.warnings.append(f"'{shown(tensor.name)}' is left out: the base model's own is used")
        return
    what = next((what for part, what in OTHER_TENSORS.items() if part in tensor.name), None)
    findings.refuse(
        Reason.FEATURE if what else Reason.TENSORS,
        f"'{shown(tensor.name)}' belongs to {what}" if what else f"'{shown(tensor.name)}' is no LoRA tensor",
        "only lora_A and lora_B are served",
    )


def _check_shapes(
    name: str, sides: dict[str, TensorInfo], rank: int, module: Module | None, findings: _Findings
) -> None:
    """A is [rank, in_size] and B is [out_size, rank]."""
    for side, tensor in sides.items():
        got = tensor.shape
        is_embedding = "lora_embedding_" in tensor.name
        if module is None:
            right = len(got) == 2 and got[0 if side == "A" else 1] == rank and 0 not in got
            expected = f"[{rank}, in]" if side == "A" else f"[out, {rank}]"
        else:
            allowed = (rank, module.in_size) if side == "A" else (module.out_size, rank)
            right = got == allowed and is_embedding == (module.kind == "embedding")
            expected = str(list(allowed)) + (" of an embedding" if module.kind == "embedding" else "")
        if not right:
            findings.refuse(
                Reason.SHAPES,
                f"lora_{side} of '{shown(name)}' is {shown(list(got))} where {expected} fits",
                "use an adapter of this base model whose r is that of its tensors",
            )


def _check_whole(config: PeftConfig, base: BaseModel, findings: _Findings) -> None:
    """Refuse an adapter that lost tensors: the targets say which modules there must be."""
    if not (base.modules and base.is_whole and config.targets) or config.selects_layers:
        return
    wanted = [n for n in base.modules if any(_is_target(n, target) for target in config.targets)]
    missing = [name for name in wanted if name not in findings.pairs]
    if missing:
        findings.refuse(
            Reason.TENSORS,
            f"{len(missing)} of {len(wanted)} target modules have no tensors, '{missing[0]}' for one",
            "save the adapter again with PEFT",
        )


def _check_values(file: TensorFile, config: PeftConfig, base: BaseModel | None, findings: _Findings) -> None:
    max_value = base.max_value if base else math.inf
    is_idle = True
    for module, sides in findings.pairs.items():
        for side, tensor in sides.items():
            low, high = file.extremes(tensor.name)
            largest = max(abs(low), abs(high)) * (abs(config.scaling_of(module)) if side == "B" else 1.0)
            if not math.isfinite(largest) or largest > max_value:
                found = "NaN or infinity" if not math.isfinite(largest) else f"{largest:.3g}"
                findings.refuse(
                    Reason.VALUES,
                    f"'{shown(tensor.name)}' holds {found}; the model's numbers end at {max_value:.3g}",
                    "the training diverged: use an earlier checkpoint",
                )
            is_idle = is_idle and (side == "A" or largest == 0)
    if is_idle:
        findings.warnings.append("every lora_B is zero: it answers exactly as the base model does")


def _is_target(module: str, target: str) -> bool:
    return module == target or module.endswith(f".{target}")
