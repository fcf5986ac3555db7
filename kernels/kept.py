"""Whether a start would find again what earlier ones kept for its configuration; reads, and makes nothing."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any


def startup_plans(vllm_config: Any) -> list[bool]:
    """For each rank, whether vLLM's start-up plan for this configuration and GPU is there."""
    from vllm.v1.worker.startup_plan import _plan_path, compute_plan_fingerprint

    world_size = vllm_config.parallel_config.world_size
    fingerprints = (compute_plan_fingerprint(vllm_config, rank, world_size) for rank in range(world_size))
    return [Path(_plan_path(fingerprint)).is_file() for fingerprint in fingerprints]


def autotune_files(vllm_config: Any) -> list[Path]:
    """FlashInfer's measurements of this configuration, of any FlashInfer and GPU."""
    import vllm.envs
    from vllm.model_executor.warmup.flashinfer_autotune_cache import flashinfer_autotune_cache_hash

    key = flashinfer_autotune_cache_hash(SimpleNamespace(vllm_config=vllm_config))
    root = Path(vllm.envs.VLLM_CACHE_ROOT) / "flashinfer_autotune_cache"
    return sorted(root.glob(f"*/*/{key}/autotune_configs_*.json"))


def num_compiled_models() -> int:
    """Compiled models of any configuration: vLLM's key for them needs the model's classes."""
    import vllm.envs

    compiled = Path(vllm.envs.VLLM_CACHE_ROOT) / "torch_compile_cache" / "torch_aot_compile"
    return sum(1 for _ in compiled.glob("*/rank_0_0/model"))
