"""Whether FlashInfer's autotune pass runs in a start: one pure function of what every rank knows.

vLLM's own rule is to run it wherever FlashInfer is installed on Hopper or newer. Ours leaves it out where it
has nothing to do, and only there: whatever is unknown runs it as vLLM does, with a reason that is shown.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

Outcome = Literal["skipped", "loaded", "tuned", "stock", "operator"]
CacheState = Literal["complete", "absent", "mismatched", "damaged", "unwritable", "unknown"]

# Dense models that were seen on a GPU to reach no tunable operator in any capture. Name the GPU and the date
# with each; none was looked at so far.
TESTED_ARCHITECTURES: frozenset[str] = frozenset()

REASONS = {
    "operator_on": "--enable-flashinfer-autotune was given",
    "operator_off": "--no-enable-flashinfer-autotune was given",
    "left_to_vllm": "LORIKEET_AUTOTUNE=vllm",
    "capability": "vLLM tunes on compute capability 9.0 and later only",
    "flashinfer_missing": "vLLM finds no FlashInfer that can compile or has compiled kernels",
    "optimization_level": "vLLM's optimization level turns it off",
    "flashinfer_version": "this FlashInfer's operators are not known",
    "flashinfer_signature": "FlashInfer's autotuner has changed",
    "vllm_changed": "vLLM is not as expected",
    "marked": "an earlier start or its serving met an operator that was not tuned",
    "mark_damaged": "what earlier starts met can't be read",
    "special": "the model has parts that a start-up can't show",
    "disagreement": "what was seen and what the registry expects differ",
    "seen": "tunable operators were seen",
    "cached": "tunable operators were seen, and their measurements are kept from an earlier start",
    "gaps": "measurements of an earlier start lacked some shapes",
    "nothing_to_tune": "no tunable operator was seen while profiling and capturing, and none is expected",
    "proven": "an earlier start of this configuration saw no tunable operator in any capture",
    "tested_model": "no tunable operator was seen while profiling, and the model's kind was tested",
    "weak_evidence": "nothing was captured before the decision, and the model's kind was not tested",
}


@dataclass(frozen=True)
class Vote:
    """What one rank knows when the ranks decide. Plain values: it travels to the others."""

    rank: int = 0
    operator: bool | None = None  # the operator's own flag
    off: str = ""  # why vLLM's own rule doesn't run the pass
    unknown: str = ""  # why this rank can't judge
    explanation: str = ""  # of `unknown`
    architecture: str = ""
    special: tuple[str, ...] = ()
    expected: tuple[str, ...] = ()  # tuned families that the registry finds in use
    seen: tuple[str, ...] = ()  # operators that asked the autotuner so far
    captured: bool = False  # whether the evidence includes a capture of graphs
    proven: bool = False  # an earlier start of this configuration captured all and saw nothing
    marked: str = ""  # why this configuration needs the pass whatever is seen
    cache: CacheState = "unknown"
    families: tuple[str, ...] = field(default=())  # all families in use, for the report


@dataclass(frozen=True)
class Decision:
    outcome: Outcome
    reason: str  # a key of REASONS
    runs: bool | None  # None: vLLM's own rule stays untouched
    detail: str = ""

    @property
    def text(self) -> str:
        """The one line that says it."""
        deed = {
            "skipped": "left out",
            "loaded": "runs, measurements are loaded",
            "tuned": "runs",
            "stock": "is left to vLLM",
            "operator": "follows the operator's flag",
        }[self.outcome]
        because = REASONS[self.reason] + (f" ({self.detail})" if self.detail else "")
        return f"FlashInfer's autotune pass {deed}: {because}"


def decide(votes: Sequence[Vote], tested: frozenset[str] = TESTED_ARCHITECTURES) -> Decision:
    """Decide for all ranks; every rank gets the same votes and so comes to the same decision.

    `tested` are the architectures for which a profile run alone is evidence enough.
    """
    for vote in votes:
        if vote.operator is not None:
            return Decision("operator", "operator_on" if vote.operator else "operator_off", None)
    if off := _first(vote.off for vote in votes):
        return Decision("stock", off, None)
    if unknown := next((vote for vote in votes if vote.unknown), None):
        return Decision("stock", unknown.unknown, None, unknown.explanation)
    if marked := _first(vote.marked for vote in votes):
        return Decision("tuned", marked, True)
    if special := _all(vote.special for vote in votes):
        return Decision("tuned", "special", True, ", ".join(special))
    seen, expected = _all(vote.seen for vote in votes), _all(vote.expected for vote in votes)
    if bool(seen) != bool(expected):
        return Decision("tuned", "disagreement", True, ", ".join([*seen, *expected]))
    if seen:
        complete = all(vote.cache == "complete" for vote in votes)
        names = ", ".join(seen)
        return (
            Decision("loaded", "cached", True, names) if complete else Decision("tuned", "seen", True, names)
        )
    return _nothing_seen(votes, tested)


def _nothing_seen(votes: Sequence[Vote], tested: frozenset[str]) -> Decision:
    if all(vote.captured for vote in votes):
        return Decision("skipped", "nothing_to_tune", False)
    if all(vote.captured or vote.proven for vote in votes):
        return Decision("skipped", "proven", False)
    if all(vote.architecture in tested for vote in votes):
        return Decision("skipped", "tested_model", False)
    return Decision("tuned", "weak_evidence", True)


def after_the_pass(decision: Decision, num_tuned: int, num_loaded: int) -> Decision:
    """The same decision with what the pass really did: `tuned` measured something, `loaded` nothing new."""
    if not decision.runs:
        return decision
    if decision.outcome == "loaded" and num_tuned:
        return Decision("tuned", "gaps", True, decision.detail)
    if decision.outcome == "tuned" and num_loaded and not num_tuned:
        return Decision("loaded", decision.reason, True, decision.detail)
    return decision


def _first(reasons: Iterable[str]) -> str:
    return next((reason for reason in reasons if reason), "")


def _all(parts: Iterable[Sequence[str]]) -> list[str]:
    return sorted({name for part in parts for name in part})
