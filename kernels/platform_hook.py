"""Has vLLM's platform name our LoRA wrapper, in the workers where our kernels are chosen."""

import logging
from typing import Any

from lorikeet.kernels.choice import OUR_WRAPPER, Choice, Mode, choose
from lorikeet.kernels.journal import Journal

# Wrappers of vLLM's that answer wrongly, and ours that are those put right.
CORRECTED = {
    "vllm.lora.punica_wrapper.punica_cpu.PunicaWrapperCPU": "lorikeet.kernels.cpu_wrapper.CpuPunicaWrapper"
}
DECISION = "lora_kernels"  # the journal's phase of the decision
_logger = logging.getLogger("vllm.lorikeet")


def hook_platform(platform: Any, mode: Mode, journal: Journal) -> None:
    """Replace `get_punica_wrapper` of the platform's class, once; vLLM calls it when a worker loads a model.

    `platform` is vLLM's `current_platform`. The choice is made at that call and not here, so that processes
    that load no model import nothing for it.
    """
    platform_class = type(platform)
    stock = platform_class.get_punica_wrapper
    if stock.__module__ == __name__:
        return

    def get_punica_wrapper(_cls: type) -> str:
        choice = choose(mode, cuda_capability(platform), batch_invariant())
        report_choice(choice, journal)
        if choice.implementation == "lorikeet":
            return OUR_WRAPPER
        return str(stock()) if mode == "off" else CORRECTED.get(str(stock()), str(stock()))

    platform_class.get_punica_wrapper = classmethod(get_punica_wrapper)


def cuda_capability(platform: Any) -> tuple[int, int] | None:
    """The GPU's compute capability; None without an NVIDIA GPU (AMD's have such numbers as well)."""
    capability = platform.get_device_capability() if platform.is_cuda() else None
    return None if capability is None else (capability.major, capability.minor)


def batch_invariant() -> bool:
    import vllm.envs

    return bool(vllm.envs.VLLM_BATCH_INVARIANT)


def report_choice(choice: Choice, journal: Journal) -> None:
    journal.write(
        "decision",
        DECISION,
        implementation=choice.implementation,
        reason=choice.reason,
        seams={seam.name: seam.ok for seam in choice.seams},
    )
    if choice.reason == "seam":
        _logger.error("LoRA runs on vLLM's own kernels: %s", choice.explanation)
