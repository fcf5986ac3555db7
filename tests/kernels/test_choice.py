"""Which operators are used, and why."""

import pytest

from lorikeet.kernels.choice import KernelsUnavailableError, choose
from lorikeet.kernels.seams import Seam

FITS = [Seam("a", True, "()", "()")]
BROKEN = [*FITS, Seam("b", False, "(self, z)", "(self)")]


def test_ours_where_everything_fits() -> None:
    choice = choose("auto", (9, 0), False, check=lambda: FITS)
    assert (choice.implementation, choice.reason, list(choice.seams)) == ("lorikeet", "chosen", FITS)


@pytest.mark.parametrize(
    ("capability", "batch_invariant", "seams", "reason"),
    [
        (None, False, FITS, "capability"),
        ((7, 5), False, FITS, "capability"),
        ((8, 0), True, FITS, "batch_invariant"),
        ((8, 0), False, BROKEN, "seam"),
    ],
)
def test_what_speaks_against_ours(
    capability: tuple[int, int] | None, batch_invariant: bool, seams: list[Seam], reason: str
) -> None:
    choice = choose("auto", capability, batch_invariant, check=lambda: seams)
    assert (choice.implementation, choice.reason) == ("vllm", reason)
    with pytest.raises(KernelsUnavailableError, match="LORIKEET_KERNELS=on"):
        choose("on", capability, batch_invariant, check=lambda: seams)


def test_a_broken_seam_is_named_with_got_and_expected() -> None:
    explanation = choose("auto", (9, 0), False, check=lambda: BROKEN).explanation
    assert "b: got '(self, z)', expected '(self)'" in explanation
    assert "a:" not in explanation


def test_off_checks_nothing() -> None:
    def fail() -> list[Seam]:
        raise AssertionError

    assert choose("off", None, False, check=fail).reason == "off"
