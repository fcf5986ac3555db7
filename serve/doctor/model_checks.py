"""The doctor's checks of one model with its arguments: all up to the engine's start, and no further."""

from argparse import Namespace
from pathlib import Path
from typing import Any

from lorikeet.kernels import kept
from lorikeet.serve import engine
from lorikeet.serve.adapters.base_model import BaseModel, describe_base_model, model_names
from lorikeet.serve.adapters.boot import MAX_CPU_LORAS, choose_rank, folder_wishes
from lorikeet.serve.adapters.errors import AdapterRefusedError
from lorikeet.serve.adapters.names import check_name
from lorikeet.serve.adapters.preflight import Limits, preflight
from lorikeet.serve.doctor.findings import Finding
from lorikeet.serve.doctor.machine import Machine
from lorikeet.serve.engine_defaults import default_arguments
from lorikeet.serve.failures import describe_failure
from lorikeet.serve.settings import Settings

# Linears that vLLM joins to one layer, in its order.
PACKED = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))


def check_model(argv: list[str], settings: Settings, machine: Machine) -> list[Finding]:
    """Check `MODEL [any vllm serve argument]`, with the adapters of LORIKEET_ADAPTERS."""
    try:
        engine.check_model_path(argv[0])
        args = engine.parse_arguments([*default_arguments(settings.drain_s), *argv])
        adapters = adapter_folders(args, settings)
        if args.max_lora_rank is None:
            args.max_lora_rank = choose_rank(folder for folder in adapters.values() if folder.is_dir())
        if args.max_cpu_loras is None:
            args.max_cpu_loras = max(MAX_CPU_LORAS, args.max_loras)
        config = engine.create_config(args, settings.kernels)
    except Exception as exc:  # whatever would end a start in these steps
        return [Finding("model", "fails", describe_failure(exc))]
    findings = [_describe(config), _kept(config)]
    names = {*(args.served_model_name or [args.model]), *model_names(args.model)}
    base = describe_base_model(config.model_config.hf_config, names, str(config.model_config.dtype))
    if config.lora_config is None:
        return findings
    if machine.gpus:
        findings.append(_coverage(config, base, machine, settings.cache_dir))
    limits = Limits(args.max_lora_rank, settings.max_adapter_bytes, settings.strict_base)
    return findings + [_adapter(name, folder, args, base, limits) for name, folder in adapters.items()]


def adapter_folders(args: Namespace, settings: Settings) -> dict[str, Path]:
    """Name → folder of what a start would serve; arguments go before the watched folder, as in `Boot`.

    What the admin API had added before is left out: it was checked then, and is in the store.

    Raises:
        OSError: the watched folder can't be read.
    """
    watched = folder_wishes(settings.adapters) if settings.adapters else {}
    folders = {name: Path(wish.origin) for name, wish in watched.items()}
    return folders | {module.name: Path(module.path).expanduser() for module in args.lora_modules or ()}


def _describe(config: Any) -> Finding:
    model, lora = config.model_config, config.lora_config
    text = (
        f"{model.architecture}, {str(model.dtype).removeprefix('torch.')}, up to {model.max_model_len} tokens"
    )
    text += f"; {lora.max_loras} slots of rank {lora.max_lora_rank}" if lora else "; no adapters"
    return Finding("model", "ok", text, {"architecture": model.architecture})


def _kept(config: Any) -> Finding:
    """Whether the next start finds what earlier ones kept."""
    try:
        plans, measured = kept.startup_plans(config), kept.autotune_files(config)
        num_compiled = kept.num_compiled_models()
    except Exception as exc:  # vLLM's private functions: a change of them must not end the doctor
        return Finding("kept", "note", f"not known, vLLM has changed: {type(exc).__name__}: {exc}")
    text = f"start-up plan {'found' if all(plans) else 'not found'}"
    text += f", FlashInfer's measurements {'found' if measured else 'not found'}"
    text += f", {num_compiled} compiled models (which one fits is known once the model is built)"
    details = {"startup_plan": all(plans), "autotune": bool(measured), "compiled_models": num_compiled}
    return Finding("kept", "ok" if all(plans) else "note", text, details)


def _coverage(config: Any, base: BaseModel, machine: Machine, cache_dir: Path) -> Finding:
    """How the block sizes of our LoRA kernels would be found for the model's layers, on the first GPU."""
    from lorikeet.kernels.config import Device
    from lorikeet.kernels.coverage import count_matches, coverage
    from lorikeet.kernels.device import MAX_SLICES
    from lorikeet.kernels.shape import launch_shapes
    from lorikeet.kernels.tuned import load_tuned

    if config.parallel_config.tensor_parallel_size > 1:
        return Finding("block sizes", "note", "not known for several GPUs, which share each layer")
    lora, gpu = config.lora_config, machine.gpus[0]
    device = Device(capability=gpu.capability, shared_bytes=gpu.shared_bytes, name=gpu.name)
    dtype = str(config.model_config.dtype).removeprefix("torch.")
    shapes = [
        shape
        for k, widths in layers(base)
        for shape in launch_shapes(k, widths, lora.max_lora_rank, lora.max_loras, dtype, MAX_SLICES)
    ]
    max_tokens = config.scheduler_config.max_num_batched_tokens
    found = count_matches(coverage(shapes, max_tokens, device, load_tuned(device, cache_dir)))
    text = ", ".join(f"{match} {number}" for match, number in found.items()) or "no layers known"
    measured = set(found) - {"default"}
    return Finding(
        "block sizes", "ok" if measured else "note", f"lookups by match: {text}", {"matches": found}
    )


def layers(base: BaseModel) -> list[tuple[int, tuple[int, ...]]]:
    """(K, widths of the slices) of each kind of linear layer, as vLLM joins those of Llama-like models."""
    sizes: dict[str, dict[str, tuple[int, int]]] = {}
    for name, module in (base.modules or {}).items():
        parent, _, last = name.rpartition(".")
        if module.kind == "linear" and last != "lm_head":
            sizes.setdefault(parent, {})[last] = (module.in_size, module.out_size)
    found: list[tuple[int, tuple[int, ...]]] = []
    for modules in sizes.values():
        for names in (*PACKED, *((name,) for name in modules)):
            if all(name in modules for name in names):
                joined = [modules.pop(name) for name in names]
                found.append((joined[0][0], tuple(width for _, width in joined)))
    return list(dict.fromkeys(found))


def _adapter(name: str, folder: Path, args: Namespace, base: BaseModel, limits: Limits) -> Finding:
    subject = f"adapter {name}"
    if not folder.is_dir():
        return Finding(subject, "fails", f"{folder} is no folder; name the one that holds its files")
    try:
        check_name(name, args.served_model_name or [args.model], args.default_mm_loras or {})
    except AdapterRefusedError as exc:
        return Finding(subject, "fails", str(exc))
    report = preflight(folder, base, limits)
    if report.is_sound:
        return Finding(subject, "ok", f"rank {report.rank}, {report.num_modules} modules")
    return Finding(subject, "fails", "; ".join(map(str, report.problems)))
