"""What vLLM calls in each of its processes (entry point `vllm.general_plugins`).

It has no arguments, so this file reads the environment for everything under `kernels/`. It runs in the
API process when vLLM's parser is built, first thing in EngineCore, and in each worker before its class
is imported; it can run twice in one process and must stay cheap: no kernels, no FlashInfer.
"""

import os
from pathlib import Path

from lorikeet.kernels.journal import STARTED
from lorikeet.kernels.quiet import one_line_failures


def install() -> None:
    """Prepare this process; does nothing where Lorikeet's server is not running, as in plain `vllm serve`."""
    folder = run_folder()
    if folder is not None and not debug():
        one_line_failures(started=(folder / STARTED).exists)


def run_folder() -> Path | None:
    """The folder of this start's journal, None when Lorikeet's server did not start this process."""
    folder = os.environ.get("LORIKEET_RUN_DIR")
    return Path(folder) if folder else None


def debug() -> bool:
    """Whether start-up failures show their tracebacks (`--debug`)."""
    return os.environ.get("LORIKEET_DEBUG", "").lower() in {"1", "true", "yes", "on"}
