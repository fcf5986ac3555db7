"""What was measured so far: one JSON line a cell, appended at once, so that a run that is killed loses one.

The first line says where it was measured. Lines of another GPU, kernel version or implementation are not
taken over, and a half-written last line is dropped.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lorikeet.kernels.shape import LayerShape
from lorikeet.kernels.tuned_file import write_atomically
from lorikeet.kernels.tuner.cells import Cell
from lorikeet.kernels.tuner.search import AnyPair, Outcome

SAME = ("implementation", "gpu", "kernel", "torch", "triton")  # of the header, for lines to be taken over


@dataclass(frozen=True)
class ConfigTypes:
    """How the two configurations of a pair are read back."""

    first: Callable[..., Any]
    second: Callable[..., Any]


class Results:
    """The outcomes by cell, kept in a file."""

    def __init__(self, path: Path, header: Mapping[str, Any], types: ConfigTypes) -> None:
        self.outcomes: dict[Cell, Outcome] = {}
        self._path, self._types = path, types
        lines = _whole_lines(path)
        if lines and all(lines[0].get(name) == header[name] for name in SAME):
            for line in lines[1:]:
                cell, outcome = self._read(line)
                self.outcomes[cell] = outcome
            text = "".join(json.dumps(line) + "\n" for line in lines)
        else:
            if lines:
                path.replace(path.with_suffix(".old.jsonl"))
            text = json.dumps(dict(header)) + "\n"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text)

    def add(self, cell: Cell, outcome: Outcome) -> None:
        self.outcomes[cell] = outcome
        line = {"shape": asdict(cell.shape), "bucket": cell.bucket, **asdict(outcome)}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def _read(self, line: dict[str, Any]) -> tuple[Cell, Outcome]:
        shape = LayerShape(**{**line["shape"], "n": tuple(line["shape"]["n"])})
        pair, default, *best = (self._pair(value) for value in (line["pair"], line["default"], *line["best"]))
        times = (line["us"], line["default_us"])
        outcome = Outcome(pair, times[0], default, times[1], best, line["best_us"], line["failed"])
        return Cell(shape, line["bucket"]), outcome

    def _pair(self, value: list[dict[str, Any]]) -> AnyPair:
        first, second = value
        return self._types.first(**first), self._types.second(**second)


def _whole_lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
