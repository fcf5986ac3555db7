"""Reads PEFT's `adapter_config.json` and says what in it can't be served."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from lorikeet.serve.adapters.reason import Reason
from lorikeet.serve.adapters.report import Problem, shown

CONFIG_FILE = "adapter_config.json"
MAX_CONFIG_BYTES = 1024**2
MAX_ALLOWED_RANK = 512  # vLLM's own

# Options that change what the adapter computes, which vLLM's LoRA doesn't do. Off when false, null or empty.
UNSUPPORTED = {
    "use_dora": "DoRA",
    "lora_bias": "LoRA with biases",
    "modules_to_save": "whole modules beside the LoRA weights (modules_to_save)",
    "trainable_token_indices": "trained token embeddings",
    "target_parameters": "LoRA on bare parameters",
    "layer_replication": "layer replication",
    "alora_invocation_tokens": "activated LoRA",
    "arrow_config": "Arrow routing",
    "use_bdlora": "block-diagonal LoRA",
    "use_qalora": "QA-LoRA",
    "kasa_config": "KaSA",
    "velora_config": "VeLoRA",
    "monteclora_config": "MonteCLoRA",
}
# Ways to initialise that leave the base model's weights alone; the others subtract something from them.
PLAIN_INITS = frozenset({"gaussian", "eva", "orthogonal", "mica", "lora_ga"})
# A pattern is a regular expression from a file, run here and in the engine: none that could run for ever.
MAX_PATTERN = 200
MAX_PATTERNS = 500  # as many as the engine's regular expressions stay compiled for
MAX_PATTERN_REPEATS = 2
PATTERN = re.compile(r"[\w.\\^$|()\[\]*+?-]+", re.ASCII)


@dataclass(frozen=True)
class PeftConfig:
    """What of the configuration decides whether and how the weights are used."""

    rank: int
    alpha: float
    rslora: bool
    rank_pattern: Mapping[str, int]
    alpha_pattern: Mapping[str, float]
    targets: tuple[str, ...] | None  # None: a regular expression or a keyword, which tensors answer better
    selects_layers: bool  # some modules that the targets name are left out on purpose
    base_name: str | None

    @property
    def max_rank(self) -> int:
        return max([self.rank, *self.rank_pattern.values()])

    def rank_of(self, module: str) -> int:
        """The rank of one module's tensors."""
        return int(_match(self.rank_pattern, module, self.rank))

    def scaling_of(self, module: str) -> float:
        """What B·A is multiplied by: alpha ÷ rank, with rsLoRA alpha ÷ √rank."""
        rank = self.rank_of(module)
        return float(_match(self.alpha_pattern, module, self.alpha)) / (
            math.sqrt(rank) if self.rslora else rank
        )


def read_config(folder: Path) -> tuple[PeftConfig | None, list[Problem]]:
    """Read the configuration of the adapter in `folder`; None where it can't be understood at all."""
    try:
        raw = _read_json(folder / CONFIG_FILE)
    except _UnreadableError as exc:
        return None, [_config(str(exc), "save the adapter again with PEFT")]
    problems = _check_values(raw)
    if problems:
        return None, problems
    targets = raw.get("target_modules")
    config = PeftConfig(
        rank=raw["r"],
        alpha=raw["lora_alpha"],
        rslora=bool(raw.get("use_rslora")),
        rank_pattern=raw.get("rank_pattern") or {},
        alpha_pattern=raw.get("alpha_pattern") or {},
        targets=tuple(targets) if isinstance(targets, list) else None,
        selects_layers=any(raw.get(k) for k in ("layers_to_transform", "layers_pattern", "exclude_modules")),
        base_name=raw["base_model_name_or_path"] if _is_text(raw.get("base_model_name_or_path")) else None,
    )
    return config, _unsupported(raw)


class _UnreadableError(Exception):
    pass


def _read_json(path: Path) -> dict[str, Any]:
    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is no JSON")

    try:
        with path.open("rb") as file:
            text = file.read(MAX_CONFIG_BYTES + 1)
        if len(text) > MAX_CONFIG_BYTES:
            raise _UnreadableError(f"{CONFIG_FILE} is larger than {MAX_CONFIG_BYTES} bytes")
        raw = json.loads(text.decode("utf-8"), parse_constant=refuse)
    except FileNotFoundError as exc:
        raise _UnreadableError(f"{CONFIG_FILE} is missing") from exc
    except OSError as exc:
        raise _UnreadableError(f"{CONFIG_FILE} can't be read ({exc.strerror})") from exc
    except (ValueError, RecursionError) as exc:
        raise _UnreadableError(f"{CONFIG_FILE} is not valid JSON ({shown(exc)})") from exc
    if not isinstance(raw, dict):
        raise _UnreadableError(f"{CONFIG_FILE} holds no JSON object")
    return raw


def _check_values(raw: dict[str, Any]) -> list[Problem]:
    """Problems of the values that everything else is computed from."""
    problems = []
    kind = raw.get("peft_type", "LORA")
    if kind != "LORA":
        problems.append(
            Problem(Reason.FEATURE, f"peft_type {shown(kind)} is not LORA", "only LoRA adapters are served")
        )
    for rank in [raw.get("r"), *_values(raw, "rank_pattern")]:
        if not isinstance(rank, int) or isinstance(rank, bool) or rank < 1:
            problems.append(
                Problem(
                    Reason.RANK,
                    f"rank {shown(rank)} is not a whole number from 1",
                    "train with a rank from 8 on",
                )
            )
    for alpha in [raw.get("lora_alpha"), *_values(raw, "alpha_pattern")]:
        if not _is_scale(alpha):
            problems.append(
                _config(
                    f"lora_alpha {shown(alpha)} is not a finite number other than 0", "set it in the file"
                )
            )
    targets = raw.get("target_modules")
    if not (_is_text(targets) or (isinstance(targets, list) and targets and all(map(_is_text, targets)))):
        problems.append(
            _config(f"target_modules {shown(targets)} names no module", "list the modules trained")
        )
    return problems + _check_patterns(raw)


def _check_patterns(raw: dict[str, Any]) -> list[Problem]:
    problems = []
    for name in ("rank_pattern", "alpha_pattern"):
        patterns = raw.get(name) or {}
        if not isinstance(patterns, dict):
            problems.append(_config(f"{name} {shown(patterns)} is not an object", "save it again with PEFT"))
            continue
        if len(patterns) > MAX_PATTERNS:
            problems.append(
                _config(f"{name} has {len(patterns)} patterns, above {MAX_PATTERNS}", "use fewer patterns")
            )
            continue
        for pattern in patterns:
            if not _is_safe_pattern(pattern):
                problems.append(
                    _config(
                        f"{name} has the pattern {shown(pattern)}", "use module names without repetitions"
                    )
                )
    return problems


def _unsupported(raw: dict[str, Any]) -> list[Problem]:
    problems = [
        Problem(
            Reason.FEATURE,
            f"{what} is not supported ({name})",
            "train a plain LoRA, or merge it into a model",
        )
        for name, what in UNSUPPORTED.items()
        if raw.get(name)
    ]
    if (bias := raw.get("bias", "none")) != "none":
        problems.append(
            Problem(Reason.FEATURE, f"bias {shown(bias)} is not supported", 'train with bias="none"')
        )
    init = raw.get("init_lora_weights", True)
    if isinstance(init, str) and init.lower() not in PLAIN_INITS:
        problems.append(
            Problem(
                Reason.FEATURE,
                f"init_lora_weights {shown(init)} changes the base model's weights",
                "convert it with PEFT's path_initial_model_for_weight_conversion",
            )
        )
    return problems


def _values(raw: dict[str, Any], name: str) -> list[Any]:
    patterns = raw.get(name)
    return list(patterns.values()) if isinstance(patterns, dict) else []


def _match(patterns: Mapping[str, float], module: str, default: float) -> float:
    """PEFT's rule: a pattern matches the end of a module's name from a dot on; the first match wins."""
    for pattern, value in patterns.items():
        if re.match(rf"(.*\.)?({pattern})$", module):
            return value
    return default


def _is_safe_pattern(pattern: str) -> bool:
    if len(pattern) > MAX_PATTERN or not PATTERN.fullmatch(pattern):
        return False
    if sum(pattern.count(repeat) for repeat in "*+") > MAX_PATTERN_REPEATS or re.search(r"\)[*+]", pattern):
        return False
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_scale(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return value != 0 and abs(value) < 1e6  # also refuses what no float can hold


def _config(found: str, remedy: str) -> Problem:
    return Problem(Reason.CONFIG, found, remedy)
