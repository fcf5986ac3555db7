"""Lists the FlashInfer operators that reach its autotuner, by reading the installed sources.

    python -m lorikeet.kernels.flashinfer_scan          print what the installed FlashInfer has
    python -m lorikeet.kernels.flashinfer_scan --write  and keep it, in flashinfer_operators.json

Nothing of FlashInfer is imported, so this works without a GPU. An operator's name is an argument of a call:
a text, or put together there. What is not known before the call becomes `*`.
"""

import ast
import importlib.util
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

LIST = "flashinfer_operators.json"
DISTRIBUTION = "flashinfer-python"
# Methods of AutoTuner whose first argument names an operator, or what its records are kept under.
NAMING_CALLS = frozenset({"choose_one", "rank_tactics", "search_cache", "publish_namespaced_records"})
ASKS_FOR_MODE = "is_tuning_mode"  # a file that reads it can do other things while tuning than call the above
MAX_DEPTH = 4  # of names that stand for names


@dataclass(frozen=True)
class ScannedOperators:
    """Which operators reach the autotuner, in one version of FlashInfer."""

    version: str
    operators: Mapping[str, tuple[str, ...]]  # name with `*` for what is not fixed → where, "file:function"
    mode_readers: tuple[str, ...]  # files that ask whether tuning is on


@cache
def committed() -> ScannedOperators:
    """The list that this package was written for."""
    data = json.loads(files("lorikeet.kernels").joinpath(LIST).read_text(encoding="utf-8"))
    operators = {name: tuple(places) for name, places in data["operators"].items()}
    return ScannedOperators(data["flashinfer"], operators, tuple(data["mode_readers"]))


def scan_installed() -> ScannedOperators:
    """Read the installed FlashInfer.

    Raises:
        ModuleNotFoundError: none is installed.
    """
    spec = importlib.util.find_spec("flashinfer")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("FlashInfer is not installed; `make test` installs it", name="flashinfer")
    return scan(Path(spec.origin).parent, version(DISTRIBUTION))


def scan(root: Path, of_version: str) -> ScannedOperators:
    """Read every Python file of a FlashInfer package but its autotuner's own."""
    trees = {}
    for path in sorted(root.rglob("*.py")):
        inside = path.relative_to(root)
        if inside.parts[0] in ("autotuner", "data"):
            continue
        text = path.read_text(encoding="utf-8")
        if ASKS_FOR_MODE in text or any(call in text for call in NAMING_CALLS) or "CUSTOM_OP" in text:
            trees[inside.as_posix()] = ast.parse(text)
    constants = {name: text for tree in trees.values() for name, text in _constants(tree.body)}
    operators: dict[str, set[str]] = defaultdict(set)
    for file, tree in trees.items():
        for place, call in _calls(tree):
            for name in _names(_operator(call), place, tree, constants):
                operators[name].add(f"{file}:{place[-1].name if place else '<module>'}")
    readers = [file for file, tree in trees.items() if _reads_mode(tree)]
    return ScannedOperators(
        of_version, {name: tuple(sorted(operators[name])) for name in sorted(operators)}, tuple(readers)
    )


Functions = tuple[ast.FunctionDef, ...]  # from the outermost to the one that holds a node


def _calls(tree: ast.Module) -> Iterator[tuple[Functions, ast.Call]]:
    def visit(node: ast.AST, place: Functions) -> Iterator[tuple[Functions, ast.Call]]:
        if isinstance(node, ast.FunctionDef):
            place = (*place, node)
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in NAMING_CALLS
        ):
            yield place, node
        for child in ast.iter_child_nodes(node):
            yield from visit(child, place)

    return visit(tree, ())


def _operator(call: ast.Call) -> ast.expr:
    named = next((keyword.value for keyword in call.keywords if keyword.arg == "custom_op"), None)
    return named or (call.args[0] if call.args else ast.Constant("*"))


def _names(
    value: ast.expr, place: Functions, tree: ast.Module, constants: Mapping[str, str], depth: int = 0
) -> set[str]:
    """Every name that `value` can have, as far as the file tells."""
    if isinstance(value, ast.Constant):
        return {str(value.value)}
    if isinstance(value, ast.IfExp):
        return {name for side in (value.body, value.orelse)
                for name in _names(side, place, tree, constants, depth)}  # fmt: skip
    if isinstance(value, ast.JoinedStr):
        names = {""}
        for part in value.values:
            inner = part.value if isinstance(part, ast.FormattedValue) else part
            ends = _names(inner, place, tree, constants, depth + 1)
            names = {name + end for name in names for end in ends}
        return {re.sub(r"\*+", "*", name) for name in names}
    if isinstance(value, ast.Name) and depth < MAX_DEPTH:
        given = [*_assigned(value.id, place), *_passed(value.id, place, tree)]
        names = {name for v, p in given for name in _names(v, p, tree, constants, depth + 1)}
        return names or {constants.get(value.id, "*")}
    return {"*"}


def _assigned(name: str, place: Functions) -> list[tuple[ast.expr, Functions]]:
    """What the innermost function that assigns to `name` gives it."""
    for end in range(len(place), 0, -1):
        values: list[tuple[ast.expr, Functions]] = [
            (node.value, place[:end])
            for node in ast.walk(place[end - 1])
            if isinstance(node, ast.Assign)
            and any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
        ]
        if values:
            return values
    return []


def _passed(name: str, place: Functions, tree: ast.Module) -> list[tuple[ast.expr, Functions]]:
    """What callers in the same file pass for the parameter `name` of the innermost function."""
    if not place:
        return []
    function = place[-1]
    parameters = [argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)]
    if name not in parameters:
        return []
    index = parameters.index(name)
    values: list[tuple[ast.expr, Functions]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == function.name:
            values += [(keyword.value, ()) for keyword in node.keywords if keyword.arg == name]
            values += [(node.args[index], ())] if index < len(node.args) else []
    return values + [(default, ()) for default in _default(function, name)]


def _default(function: ast.FunctionDef, name: str) -> list[ast.expr]:
    keywords = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    return [default for argument, default in keywords if argument.arg == name and default is not None]


def _constants(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for node in body:
        if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)):
            continue
        text = node.value.value
        if isinstance(text, str):
            yield from ((target.id, text) for target in node.targets if isinstance(target, ast.Name))


def _reads_mode(tree: ast.Module) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == ASKS_FOR_MODE for node in ast.walk(tree))


def as_json(scanned: ScannedOperators) -> str:
    data: dict[str, Any] = {
        "flashinfer": scanned.version,
        "operators": {name: list(places) for name, places in scanned.operators.items()},
        "mode_readers": list(scanned.mode_readers),
    }
    return json.dumps(data, indent=1) + "\n"


def main(argv: list[str]) -> None:
    text = as_json(scan_installed())
    if argv == ["--write"]:
        Path(__file__).with_name(LIST).write_text(text, encoding="utf-8")
    print(text, end="")


if __name__ == "__main__":
    main(sys.argv[1:])
