"""What the doctor says: one finding a line, as text and as plain data."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Verdict = Literal["ok", "note", "fails"]  # note: it works, and could be better or isn't known yet


@dataclass(frozen=True)
class Finding:
    subject: str
    verdict: Verdict
    text: str  # one line
    details: dict[str, Any] = field(default_factory=dict)  # for programs


def exit_code(findings: Sequence[Finding]) -> int:
    """1 when a start would fail, or would not do what was asked."""
    return int(any(finding.verdict == "fails" for finding in findings))


def as_text(findings: Sequence[Finding]) -> str:
    width = max(len(finding.subject) for finding in findings)
    return "".join(f"{f.verdict:5}  {f.subject:<{width}}  {f.text}\n" for f in findings)


def as_data(findings: Sequence[Finding]) -> dict[str, Any]:
    return {"ok": exit_code(findings) == 0, "findings": [asdict(finding) for finding in findings]}
