"""The doctor's checks that need no model: the machine, vLLM's seams, kernels, autotune and caches."""

from collections.abc import Sequence
from pathlib import Path

from lorikeet.kernels.autotune_decision import REASONS
from lorikeet.kernels.choice import KernelsUnavailableError, Mode, choose
from lorikeet.kernels.flashinfer_scan import committed
from lorikeet.kernels.seams import Seam
from lorikeet.serve.caches import FOLDERS, MAX_FAILURES, damaged, failed_starts
from lorikeet.serve.doctor.findings import Finding, Verdict
from lorikeet.serve.doctor.machine import Machine
from lorikeet.serve.errors import StartError
from lorikeet.serve.writable import REMEDY, check_run_dir, why_unwritable

TESTED_VLLM = "0.32.0"
GIB = 1024**3
AUTOTUNE_CAPABILITY = (9, 0)  # from here on vLLM runs FlashInfer's autotune pass


def check_gpus(machine: Machine) -> Finding:
    if not machine.gpus:
        return Finding("gpu", "note", "no NVIDIA GPU that CUDA can use: models run on the CPU, slowly")
    names = [
        "{}, compute capability {}.{}, {:.0f} GiB".format(gpu.name, *gpu.capability, gpu.memory_bytes / GIB)
        for gpu in machine.gpus
    ]
    different = len(set(names)) > 1
    shown = "; ".join(names) if different else f"{len(names)} × {names[0]}"
    return Finding("gpu", "ok", f"{shown}; driver {machine.driver or 'unknown'}", {"gpus": names})


def check_versions(machine: Machine) -> Finding:
    shown = ", ".join(f"{name} {version or 'missing'}" for name, version in machine.versions.items())
    details = {"versions": machine.versions}
    for name in ("vllm", "torch"):
        if machine.versions.get(name) is None:
            return Finding("versions", "fails", f"{shown}; {name} is not installed", details)
    if machine.versions["vllm"] != TESTED_VLLM:
        return Finding("versions", "note", f"{shown}; tested with vLLM {TESTED_VLLM}", details)
    return Finding("versions", "ok", shown, details)


def check_seams_of_vllm(seams: Sequence[Seam]) -> Finding:
    """Seams that have changed are no failure by themselves: `check_kernels` says what becomes of them."""
    broken = [seam for seam in seams if not seam.ok]
    text = f"{len(seams) - len(broken)} of {len(seams)} places of vLLM are as expected"
    if broken:
        text += f"; {broken[0].name} is {broken[0].got!r} instead of {broken[0].expected!r}"
    return Finding(
        "seams", "note" if broken else "ok", text, {"changed": {seam.name: seam.got for seam in broken}}
    )


def check_kernels(machine: Machine, seams: Sequence[Seam], mode: Mode, batch_invariant: bool) -> Finding:
    """Whose LoRA kernels a start would use; fails where ours are asked for and can't be used."""
    capability = min((gpu.capability for gpu in machine.gpus), default=None)
    try:
        choice = choose(mode, capability, batch_invariant, check=lambda: list(seams))
    except KernelsUnavailableError as exc:
        return Finding("lora kernels", "fails", str(exc))
    details = {"implementation": choice.implementation, "reason": choice.reason}
    if choice.implementation == "lorikeet":
        return Finding("lora kernels", "ok", "Lorikeet's", details)
    why = choice.explanation or f"LORIKEET_KERNELS={mode}"
    return Finding("lora kernels", "note" if mode == "auto" else "ok", f"vLLM's own: {why}", details)


def check_autotune(machine: Machine, mode: str) -> Finding:
    """What of FlashInfer's autotune pass is known without a model on the GPU."""
    capability = min((gpu.capability for gpu in machine.gpus), default=(0, 0))
    installed = machine.versions.get("flashinfer")
    if capability < AUTOTUNE_CAPABILITY:
        return _autotune("ok", "capability")
    if installed is None:
        return _autotune("note", "flashinfer_missing")
    if mode == "vllm":
        return _autotune("ok", "left_to_vllm")
    if installed != committed().version:
        return _autotune("note", "flashinfer_version", f" (known is {committed().version})")
    text = "decided in the start, by what the model reaches while it is profiled and captured"
    return Finding("autotune", "ok", text, {"reason": None})


def _autotune(verdict: str, reason: str, more: str = "") -> Finding:
    text = f"left to vLLM: {REASONS[reason]}{more}"
    return Finding("autotune", "ok" if verdict == "ok" else "note", text, {"reason": reason})


def check_run_folder(run_dir: Path | None) -> Finding:
    try:
        check_run_dir(run_dir)
    except StartError as exc:
        return Finding("run folder", "fails", str(exc))
    return Finding("run folder", "ok", str(run_dir or "a temporary one"))


def check_cache_folder(folder: Path, chosen: bool) -> Finding:
    """Whether caches can be written, what they hold, and what of it would be made anew.

    A folder that the operator has `chosen` must be writable; else a start takes a temporary one.
    """
    if reason := why_unwritable(folder):
        verdict: Verdict = "fails" if chosen else "note"
        return Finding("caches", verdict, f"LORIKEET_CACHE_DIR={folder}: {reason}; {REMEDY}")
    filled = [
        name for name in FOLDERS.values() if (folder / name).is_dir() and any((folder / name).iterdir())
    ]
    details = {"folder": str(folder), "filled": filled}
    if failed_starts(folder) >= MAX_FAILURES:
        text = f"{folder}: the last {failed_starts(folder)} starts failed, the next one puts the caches aside"
        return Finding("caches", "note", text, details)
    if bad := [str(path.relative_to(folder)) for path in damaged(folder)]:
        text = f"{folder}: {len(bad)} damaged entries will be made anew, {bad[0]} first"
        return Finding("caches", "note", text, details | {"damaged": bad})
    if not filled:
        return Finding("caches", "note", f"{folder} is empty: the next start is a cold one", details)
    return Finding("caches", "ok", f"{folder} holds {', '.join(filled)}", details)
