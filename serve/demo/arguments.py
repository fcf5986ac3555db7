"""The vLLM arguments that serve the demo: the model, its two adapters, and memory for a small machine."""

from pathlib import Path

from lorikeet.serve.demo.adapter_paths import adapter_paths
from lorikeet.serve.demo.smollm2 import DEMO_NAME, prepare

MAX_TOKENS = 2048
KV_CACHE_BYTES = 512 * 1024**2


def demo_arguments(cache: Path) -> list[str]:
    """Prepare the model under `cache` if it isn't there yet, and name it with its adapters."""
    model = prepare(cache / DEMO_NAME)
    adapters = [f"{name}={path}" for name, path in adapter_paths().items()]
    return [
        str(model),
        *("--served-model-name", DEMO_NAME),
        *("--max-model-len", str(MAX_TOKENS)),
        *("--kv-cache-memory-bytes", str(KV_CACHE_BYTES)),
        *(["--lora-modules", *adapters] if adapters else []),
    ]
