"""What Lorikeet chooses for vLLM where the operator doesn't: arguments and environment."""

from collections.abc import MutableMapping
from pathlib import Path

from lorikeet.serve.caches import cache_environment

# Set only where unset. Fork is unsafe below a process with a running loop and threads. vLLM inspects a model
# with `python -m` in a process of its own, which would find our folders under their bare names in the
# current one.
ENVIRONMENT = {
    "PYTHONSAFEPATH": "1",
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    "VLLM_ENABLE_STARTUP_PLAN": "1",
    "VLLM_NO_USAGE_STATS": "1",
}
NUM_QUEUED_PER_RUNNING = 2  # a full batch running and as much waiting; more would only time out


def default_arguments(drain_s: float) -> list[str]:
    """vLLM arguments to put before the operator's, whose own then win.

    The engine's own shutdown timeout is the drain time, so that a Ctrl-C that reaches it directly lets
    requests finish too.
    """
    return [
        "--enable-lora",
        *("--max-loras", "8"),
        *("--worker-cls", "lorikeet.kernels.vllm_worker.Worker"),
        "--enable-request-id-headers",
        *("--shutdown-timeout", str(max(1, round(drain_s)))),
    ]


def set_environment(environ: MutableMapping[str, str], caches: Path) -> None:
    """Set the variables that vLLM and its processes read, before it is imported."""
    for name, value in (ENVIRONMENT | cache_environment(caches)).items():
        environ.setdefault(name, value)
