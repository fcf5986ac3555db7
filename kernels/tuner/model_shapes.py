"""Shapes of a model's layers with LoRA, from its config.json, as vLLM itself would build them.

    python -m lorikeet.kernels.tuner.model_shapes TP MODEL…

The model is built on PyTorch's meta device, without memory or weights, and its linear layers are replaced by
vLLM's LoRA layers. A process of its own, since vLLM keeps its parallel groups in globals. It prints one line
of JSON for each model: {"layers": [{"name", "k", "n", "count"}], "note"} or {"error"}.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TIMEOUT_S = 600


class ModelShapesError(RuntimeError):
    """vLLM cannot build the model, or gives none of its layers LoRA."""


@dataclass(frozen=True)
class Layer:
    """Linear layers of one shape, on one of the GPUs that share them."""

    name: str  # the last part of the first such module's name
    k: int
    n: tuple[int, ...]
    count: int


def read_model_shapes(models: Sequence[str], tp: int = 1) -> list[list[Layer]]:
    """The distinct layers of each model: a config.json, a folder that holds one, or a model hub's name.

    Raises:
        ModelShapesError: a model that vLLM does not know or that has no layers with LoRA.
    """
    command = [sys.executable, "-m", __name__, str(tp), *models]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    found = []
    for model, line in zip(models, lines, strict=False):
        if "error" in line:
            raise ModelShapesError(f"{model}: {line['error']}")
        found.append([Layer(row["name"], row["k"], tuple(row["n"]), row["count"]) for row in line["layers"]])
    if len(found) < len(models):
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise ModelShapesError(f"{models[len(found)]}: vLLM could not build it: {last}")
    return found


def main() -> None:
    tp, *models = sys.argv[1:]
    for model in models:
        with tempfile.TemporaryDirectory() as folder:
            try:
                answer: dict[str, Any] = {"layers": _shapes(_prepared(model, Path(folder)), int(tp))}
            except Exception as exc:  # reported under the model's name; the next one may be fine
                first_line = (str(exc).strip().splitlines() or [""])[0]
                answer = {"error": f"{type(exc).__name__}: {first_line}"}
        print(json.dumps(answer), flush=True)


def _prepared(model: str, folder: Path) -> Path:
    """A folder with the model's config.json and code, whose weights are in no quantised format.

    LoRA's shapes don't depend on the format, and some formats can be built on some devices only.
    """
    source = Path(model)
    if not source.exists():
        from huggingface_hub import snapshot_download

        source = Path(snapshot_download(model, allow_patterns=["config.json", "*.py"]))
    if source.is_dir():
        source = source / "config.json"
    config = json.loads(source.read_text(encoding="utf-8"))
    config.pop("quantization_config", None)
    for code in source.parent.glob("*.py"):
        (folder / code.name).symlink_to(code.resolve())
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def _shapes(folder: Path, tp: int) -> list[dict[str, Any]]:
    try:
        return _built_shapes(folder, tp)
    except Exception:
        # A multimodal class may need packages that are not here. vLLM gives the language model alone LoRA
        # unless told otherwise, and builds it by its own class.
        config = json.loads((folder / "config.json").read_text())
        text = config.get("text_config")
        from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as NAMES

        if not isinstance(text, dict) or text.get("model_type") not in NAMES:
            raise
        text = {"torch_dtype": config.get("torch_dtype"), **text}
        text["architectures"] = [NAMES[text["model_type"]]]
        (folder / "config.json").write_text(json.dumps(text))
        return _built_shapes(folder, tp)


def _built_shapes(folder: Path, tp: int) -> list[dict[str, Any]]:
    import torch
    from vllm.config import set_current_vllm_config
    from vllm.engine.arg_utils import EngineArgs
    from vllm.model_executor.model_loader.utils import initialize_model

    config = EngineArgs(
        model=str(folder), skip_tokenizer_init=True, trust_remote_code=any(folder.glob("*.py")),
        load_format="dummy", enforce_eager=True, max_model_len=256, max_num_batched_tokens=256,
        max_num_seqs=1, enable_prefix_caching=False, enable_lora=True, max_loras=1, max_cpu_loras=1,
    ).create_engine_config()  # fmt: skip
    with set_current_vllm_config(config):
        _pretend_parallel(tp)
        # Layers register themselves by name in the configuration, which is new for each model.
        with torch.device("meta"):
            model = initialize_model(config)
            return _lora_shapes(model, config.lora_config, config.model_config.hf_config)


def _pretend_parallel(tp: int) -> None:
    """One process that believes to be the first of `tp`: layers are sharded by the group's size alone."""
    from vllm.distributed import parallel_state

    if not parallel_state.model_parallel_is_initialized():
        from vllm.utils.network_utils import get_open_port

        address = f"tcp://127.0.0.1:{get_open_port()}"
        parallel_state.init_distributed_environment(1, 0, address, 0, backend="gloo")
        parallel_state.initialize_model_parallel(1, 1)
    parallel_state.get_tp_group().world_size = tp


def _lora_shapes(model: Any, lora_config: Any, model_config: Any) -> list[dict[str, Any]]:
    """As LoRAModelManager replaces the layers; experts and embeddings are left out: they have own kernels."""
    from vllm.lora import utils
    from vllm.lora.layers.base_linear import BaseLinearLayerWithLoRA
    from vllm.model_executor.layers.linear import LinearBase
    from vllm.model_executor.models import supports_multimodal

    prefix = ""
    if supports_multimodal(model) and hasattr(model, "get_mm_mapping"):
        prefix = model.get_mm_mapping().language_model[0]
    supported = utils.get_supported_lora_modules(model)
    packed = utils.process_packed_modules_mapping(model)
    rows: dict[tuple[int, tuple[int, ...]], dict[str, Any]] = {}
    for full_name, module in model.named_modules():
        name = full_name.rpartition(".")[2]
        if not isinstance(module, LinearBase) or not full_name.startswith(prefix):
            continue
        if not utils.is_supported_lora_module(full_name, module, supported):
            continue
        layer = utils.from_layer(module, 1, lora_config, packed.get(name, []), model_config)
        if isinstance(layer, BaseLinearLayerWithLoRA):
            k, n = layer.lora_a_stacked[0].shape[3], tuple(b.shape[2] for b in layer.lora_b_stacked)
            row = rows.setdefault((k, n), {"name": name, "k": k, "n": list(n), "count": 0})
            row["count"] += 1
    if not rows:
        raise ModelShapesError("none of its linear layers takes LoRA in vLLM")
    return list(rows.values())


if __name__ == "__main__":
    main()
