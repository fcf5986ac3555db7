"""What vLLM calls in each of its processes (entry point `vllm.general_plugins`).

It has no arguments, so this file reads the environment for everything under `kernels/`. It runs in the
API process when vLLM's parser is built, first thing in EngineCore, and in each worker before its class
is imported; it can run twice in one process and must stay cheap: no kernels, no FlashInfer.
"""

import importlib.util
import multiprocessing
import os
from pathlib import Path
from typing import get_args

from lorikeet.kernels.choice import Mode
from lorikeet.kernels.journal import STARTED, Journal, Process
from lorikeet.kernels.parent import end_with_parent
from lorikeet.kernels.platform_hook import hook_platform
from lorikeet.kernels.quiet import one_line_failures

AUTOTUNE_MODES = ("auto", "vllm", "operator")


def install() -> None:
    """Prepare this process.

    Below Lorikeet's server: all of it. In plain `vllm serve`: the kernels, if LORIKEET_KERNELS asks for them,
    and else nothing.
    """
    folder = run_folder()
    if folder is not None:
        _join_server(folder)
    if folder is not None or "LORIKEET_KERNELS" in os.environ:
        from vllm.platforms import current_platform

        hook_platform(current_platform, kernels_mode(), Journal(folder, _process()))


def _join_server(folder: Path) -> None:
    """Fail in one line, end with the server, and journal what is importable under our folders' bare names."""
    journal = Journal(folder, _process())
    if not debug():
        one_line_failures(
            started=(folder / STARTED).exists,
            report=lambda error: journal.write("note", "failure", error=error),
        )
    end_with_parent()
    # transformers probes for a package named `kernels`: our folder must not be found under its bare name.
    found = [name for name in ("kernels", "serve") if importlib.util.find_spec(name)]
    journal.write("note", "plugin", top_level=found)


def run_folder() -> Path | None:
    """The folder of this start's journal, None when Lorikeet's server did not start this process."""
    folder = os.environ.get("LORIKEET_RUN_DIR")
    return Path(folder) if folder else None


def cache_folder() -> Path | None:
    """What is measured once and kept; None when Lorikeet's server did not start this process."""
    folder = os.environ.get("LORIKEET_CACHE_DIR")
    return Path(folder) if folder else None


def tune_seconds() -> float | None:
    """How long block sizes may be measured at this start; None unless LORIKEET_TUNE=startup."""
    if os.environ.get("LORIKEET_TUNE") != "startup":
        return None
    return float(os.environ.get("LORIKEET_TUNE_S", "60"))


def measured_are_ignored() -> bool:
    """Whether LORIKEET_TUNE=ignore asks for default block sizes, whatever was measured."""
    return os.environ.get("LORIKEET_TUNE") == "ignore"


def kernels_mode() -> Mode:
    """How our LoRA kernels are asked for.

    Raises:
        ValueError: LORIKEET_KERNELS is none of the modes.
    """
    value = os.environ.get("LORIKEET_KERNELS", "auto")
    for mode in get_args(Mode):
        if value == mode:
            return mode  # type: ignore[no-any-return]
    raise ValueError(f"LORIKEET_KERNELS={value}: must be one of {', '.join(get_args(Mode))}")


def autotune_mode() -> str:
    """Who decides on FlashInfer's autotune pass: `auto` Lorikeet, `vllm` its own rule, `operator` a flag.

    The server sets `operator` itself when one of vLLM's two flags was given.

    Raises:
        ValueError: LORIKEET_AUTOTUNE is none of these.
    """
    value = os.environ.get("LORIKEET_AUTOTUNE", "auto")
    if value not in AUTOTUNE_MODES:
        raise ValueError(f"LORIKEET_AUTOTUNE={value}: must be one of {', '.join(AUTOTUNE_MODES)}")
    return value


def debug() -> bool:
    """Whether start-up failures show their tracebacks (`--debug`)."""
    return os.environ.get("LORIKEET_DEBUG", "").lower() in {"1", "true", "yes", "on"}


def _process() -> Process:
    if multiprocessing.parent_process() is None:
        return "api"
    return "worker" if "Worker" in multiprocessing.current_process().name else "engine"
