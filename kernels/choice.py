"""Whether the LoRA operators are ours or vLLM's own, and why."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from lorikeet.kernels.seams import Seam, check_seams

Mode = Literal["auto", "on", "off"]
OUR_WRAPPER = "lorikeet.kernels.punica_wrapper.LorikeetPunicaWrapper"
MIN_CAPABILITY = (8, 0)


class KernelsUnavailableError(RuntimeError):
    """Our kernels were asked for and cannot be used."""


@dataclass(frozen=True)
class Choice:
    implementation: Literal["lorikeet", "vllm"]
    reason: str  # from a small closed set: a metric's label
    explanation: str = ""
    seams: Sequence[Seam] = field(default=())


def choose(
    mode: Mode,
    capability: tuple[int, int] | None,
    batch_invariant: bool,
    check: Callable[[], list[Seam]] = check_seams,
) -> Choice:
    """Ours unless something speaks against it; with mode `on`, what does is an error."""
    if mode == "off":
        return Choice("vllm", "off")
    choice = _choose(capability, batch_invariant, check)
    if mode == "on" and choice.implementation != "lorikeet":
        raise KernelsUnavailableError(
            f"LORIKEET_KERNELS=on: {choice.explanation}; set it to auto to use vLLM's"
        )
    return choice


def _choose(
    capability: tuple[int, int] | None, batch_invariant: bool, check: Callable[[], list[Seam]]
) -> Choice:
    if capability is None or capability < MIN_CAPABILITY:
        got = "no CUDA GPU" if capability is None else "compute capability {}.{}".format(*capability)
        return Choice(
            "vllm", "capability", f"{got}, our kernels need {MIN_CAPABILITY[0]}.{MIN_CAPABILITY[1]}"
        )
    if batch_invariant:
        return Choice(
            "vllm", "batch_invariant", "VLLM_BATCH_INVARIANT is set; our kernels choose by number of tokens"
        )
    seams = check()
    broken = [seam for seam in seams if not seam.ok]
    if broken:
        details = "; ".join(f"{seam.name}: got {seam.got!r}, expected {seam.expected!r}" for seam in broken)
        return Choice("vllm", "seam", f"vLLM has changed: {details}", seams)
    return Choice("lorikeet", "chosen", seams=seams)
