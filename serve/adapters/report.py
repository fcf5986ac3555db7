"""What a check of one adapter found: a report with its problems and warnings, as text and as plain data."""

from dataclasses import asdict, dataclass
from typing import Any

from lorikeet.serve.adapters.errors import AdapterRefusedError
from lorikeet.serve.adapters.reason import Reason

MAX_SHOWN = 80  # characters of a name that a file or a client chose


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: what was got and is allowed, and what to do."""

    reason: Reason
    found: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.found}; {self.remedy}"


@dataclass(frozen=True)
class Report:
    """Everything that a check learned of an adapter; it may be served when there are no problems."""

    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()
    rank: int | None = None
    num_tensors: int = 0
    num_bytes: int = 0
    num_modules: int = 0

    @property
    def is_sound(self) -> bool:
        return not self.problems

    def raise_if_refused(self, name: str) -> None:
        """Raises AdapterRefusedError with the first problem, if there is one."""
        if self.problems:
            raise AdapterRefusedError(self.refusal(name), self.problems[0].reason)

    def refusal(self, name: str) -> str:
        """The first problem in one line, and how many more there are."""
        more = len(self.problems) - 1
        others = f" (and {more} more, which `lorikeet check` lists)" if more else ""
        return f"adapter '{shown(name)}': {self.problems[0]}{others}"

    def document(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"sound": self.is_sound, **asdict(self)}

    def text(self, name: str) -> str:
        """The report for a person, one line each."""
        verdict = "can be served" if self.is_sound else "is refused"
        lines = [f"adapter '{shown(name)}' {verdict}"]
        lines += [f"  refused ({problem.reason}): {problem}" for problem in self.problems]
        lines += [f"  warning: {warning}" for warning in self.warnings]
        counts = f"{self.num_modules} modules, {self.num_tensors} tensors, {self.num_bytes} bytes"
        lines.append(f"  rank {self.rank}, {counts}")
        return "\n".join(lines)


def shown(text: object) -> str:
    """A name from outside made fit for one line of a log or an answer: printable, and not long."""
    plain = "".join(c if c.isprintable() and not 0xD800 <= ord(c) < 0xE000 else "?" for c in str(text))
    return plain if len(plain) <= MAX_SHOWN else plain[: MAX_SHOWN - 1] + "…"
