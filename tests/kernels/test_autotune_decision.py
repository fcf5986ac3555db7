"""The decision table, row by row."""

from dataclasses import replace

import pytest

from lorikeet.kernels.autotune_decision import REASONS, Decision, Vote, after_the_pass, decide

QUIET = Vote(architecture="LlamaForCausalLM", captured=True, cache="absent")  # dense, nothing seen
UNTESTED = replace(QUIET, architecture="SomeForCausalLM")
TESTED = frozenset({"LlamaForCausalLM"})
SEEN = ("fp8_gemm",)
EXPECTED = ("fp8_linear",)


def reached(outcome: str, reason: str, *votes: Vote) -> None:
    decision = decide(votes, TESTED)
    assert (decision.outcome, decision.reason) == (outcome, reason)
    assert decision.runs is {"skipped": False, "loaded": True, "tuned": True}.get(outcome)


ROWS = {
    "nothing seen, captured": ("skipped", "nothing_to_tune", UNTESTED),
    "nothing seen, not captured, tested kind": ("skipped", "tested_model", replace(QUIET, captured=False)),
    "nothing seen, not captured, proven": (
        "skipped", "proven", replace(UNTESTED, captured=False, proven=True),
    ),
    "nothing seen, not captured, untested": ("tuned", "weak_evidence", replace(UNTESTED, captured=False)),
    "nothing seen, some expected": ("tuned", "disagreement", replace(QUIET, expected=EXPECTED)),
    "some seen, nothing expected": ("tuned", "disagreement", replace(QUIET, seen=SEEN)),
    "seen, expected, kept": (
        "loaded", "cached", replace(QUIET, seen=SEEN, expected=EXPECTED, cache="complete"),
    ),
    "seen, expected, no file": ("tuned", "seen", replace(QUIET, seen=SEEN, expected=EXPECTED)),
    "seen, expected, other's file": (
        "tuned", "seen", replace(QUIET, seen=SEEN, expected=EXPECTED, cache="mismatched"),
    ),
    "marked": ("tuned", "marked", replace(QUIET, marked="marked")),
    "mark can't be read": ("tuned", "mark_damaged", replace(QUIET, marked="mark_damaged")),
    "unknown version": ("stock", "flashinfer_version", replace(QUIET, unknown="flashinfer_version")),
    "changed signature": ("stock", "flashinfer_signature", replace(QUIET, unknown="flashinfer_signature")),
    "an older GPU": ("stock", "capability", replace(QUIET, off="capability")),
    "the operator says yes": ("operator", "operator_on", replace(QUIET, operator=True)),
    "the operator says no": (
        "operator", "operator_off", replace(QUIET, operator=False, marked="marked", seen=SEEN),
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS)
def test_row(row: str) -> None:
    outcome, reason, vote = ROWS[row]
    reached(outcome, reason, vote)
    reached(outcome, reason, vote, replace(vote, rank=1))


@pytest.mark.parametrize(
    "part",
    ["moe", "mla", "speculative_decoding", "multimodal", "hybrid", "data_parallel", "elastic_ep",
     "sleep_mode", "pcie_ipc", "compile_sizes"],
)  # fmt: skip
def test_parts_that_a_start_does_not_show(part: str) -> None:
    reached("tuned", "special", replace(QUIET, special=(part,)))
    assert part in decide([replace(QUIET, special=(part,))], TESTED).text


ONE_RANK_DIFFERS = {
    "it saw an operator": ("tuned", "disagreement", replace(QUIET, seen=SEEN)),
    "it captured nothing": ("tuned", "weak_evidence", replace(UNTESTED, captured=False)),
    "it can't judge": ("stock", "vllm_changed", replace(QUIET, unknown="vllm_changed")),
    "it is marked": ("tuned", "marked", replace(QUIET, marked="marked")),
    "its FlashInfer is gone": ("stock", "flashinfer_missing", replace(QUIET, off="flashinfer_missing")),
}


@pytest.mark.parametrize("case", ONE_RANK_DIFFERS)
@pytest.mark.parametrize("position", [0, 1, 2])
def test_one_rank_is_enough(case: str, position: int) -> None:
    outcome, reason, vote = ONE_RANK_DIFFERS[case]
    votes = [UNTESTED] * 2
    votes.insert(position, vote)
    reached(outcome, reason, *votes)


def test_one_rank_without_its_file_means_tuning() -> None:
    kept = replace(QUIET, seen=SEEN, expected=EXPECTED, cache="complete")
    reached("tuned", "seen", kept, replace(kept, rank=1, cache="absent"))


def test_an_unreadable_rank_never_skips_whatever_else_speaks_for_it() -> None:
    """Nothing that is unknown may leave the pass out."""
    for unknown in ("flashinfer_version", "flashinfer_signature", "vllm_changed"):
        assert decide([replace(QUIET, unknown=unknown, proven=True)]).runs is None


@pytest.mark.parametrize(
    ("before", "num_tuned", "num_loaded", "after"),
    [
        (Decision("tuned", "seen", True), 3, 0, ("tuned", "seen")),
        (Decision("tuned", "special", True), 0, 5, ("loaded", "special")),
        (Decision("tuned", "weak_evidence", True), 0, 0, ("tuned", "weak_evidence")),
        (Decision("loaded", "cached", True), 0, 5, ("loaded", "cached")),
        (Decision("loaded", "cached", True), 2, 5, ("tuned", "gaps")),
        (Decision("skipped", "proven", False), 0, 0, ("skipped", "proven")),
        (Decision("operator", "operator_on", None), 4, 0, ("operator", "operator_on")),
    ],
)
def test_what_the_pass_did_is_what_is_said(
    before: Decision, num_tuned: int, num_loaded: int, after: tuple[str, str]
) -> None:
    decision = after_the_pass(before, num_tuned, num_loaded)
    assert (decision.outcome, decision.reason) == after


def test_every_reason_is_a_sentence() -> None:
    for row in ROWS.values():
        assert REASONS[row[1]] in decide([row[2]], TESTED).text
