"""vLLM's and FlashInfer's side of the autotune pass: what a worker can find out there.

Everything is imported when called: most workers need none of it.
"""

import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from lorikeet.kernels.autotune_decision import CacheState
from lorikeet.kernels.autotune_file import cache_state, put_aside
from lorikeet.kernels.model_facts import ModelFacts, model_facts

MIN_CAPABILITY = 90  # as vLLM's kernel_warmup has it
_logger = logging.getLogger("vllm.lorikeet")


def why_off(vllm_config: Any, mode: str) -> str:
    """Why vLLM would not run its pass, or why it is not ours to touch; empty if it would."""
    from vllm.platforms import current_platform

    if not current_platform.is_cuda() or not current_platform.has_device_capability(MIN_CAPABILITY):
        return "capability"
    from vllm.utils.flashinfer import has_flashinfer

    if not has_flashinfer():
        return "flashinfer_missing"
    if mode == "vllm":
        return "left_to_vllm"
    if mode == "auto" and vllm_config.kernel_config.enable_flashinfer_autotune is False:
        return "optimization_level"
    return ""


def autotuner() -> tuple[type, str]:
    """FlashInfer's AutoTuner class and FlashInfer's version."""
    import flashinfer
    from flashinfer.autotuner import AutoTuner

    return AutoTuner, flashinfer.__version__


def num_measured() -> tuple[int, int]:
    """How many shapes were measured in this process, and how many were loaded from a file."""
    tuner: Any = autotuner()[0].get()  # type: ignore[attr-defined]
    return sum(tuner.stats.tuned_op_successful_configs.values()), len(tuner._file_configs)


def ranks() -> tuple[Any, int]:
    """The CPU process group of all ranks, and their number."""
    from vllm.distributed.parallel_state import get_world_group

    world = get_world_group()
    return world.cpu_group, world.world_size


def facts(worker: Any) -> ModelFacts:
    import vllm.envs

    pcie_ipc = bool(vllm.envs.VLLM_ALLREDUCE_USE_FLASHINFER_PCIE_IPC)
    return model_facts(worker.vllm_config, worker.get_model(), pcie_ipc)


def writable_folder(worker: Any) -> Path | None:
    """Where vLLM keeps this configuration's measurements; made if it doesn't exist.

    None, with a warning, where it can't be written: vLLM would end the start there, so that it is given a
    temporary folder instead.
    """
    from vllm.model_executor.warmup.flashinfer_autotune_cache import resolve_flashinfer_autotune_file

    try:
        folder = Path(resolve_flashinfer_autotune_file(worker.model_runner)).parent
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as exc:
        _logger.warning("FlashInfer's measurements can't be kept (%s): a start that needs them is slow", exc)
        os.environ["VLLM_FLASHINFER_AUTOTUNE_CACHE_DIR"] = tempfile.mkdtemp(prefix="lorikeet-autotune-")
        return None


def checked_cache(worker: Any, folder: Path | None) -> CacheState:
    """The state of this rank's measurements; damaged ones are put aside."""
    if folder is None:
        return "unwritable"
    from flashinfer.autotuner import _collect_metadata
    from vllm.distributed.parallel_state import get_world_group

    dp_rank = worker.vllm_config.parallel_config.data_parallel_rank
    # Named as in vLLM's flashinfer_autotune.
    path = folder / f"autotune_configs_dp{dp_rank}_rank{get_world_group().rank_in_group}.json"
    state = cache_state(path, _collect_metadata)
    if state == "damaged":
        put_aside(path)
    return state


@contextmanager
def watched_pass(off: str, around: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """vLLM's pass runs inside `around()`, wherever vLLM calls it until the end of the block."""
    if off and off != "optimization_level":
        yield
        return
    from vllm.model_executor.warmup import kernel_warmup

    stock = kernel_warmup.flashinfer_autotune

    def watched(*args: Any, **kwargs: Any) -> Any:
        with around():
            return stock(*args, **kwargs)

    kernel_warmup.flashinfer_autotune = watched
    try:
        yield
    finally:
        kernel_warmup.flashinfer_autotune = stock
