"""Which metrics and labels a PromQL expression reads."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import promql_parser


@dataclass(frozen=True)
class Selector:
    """A metric's name, and each label that is matched, with its value where that must be equal."""

    metric: str
    labels: frozenset[tuple[str, str | None]]


def selectors(expr: str) -> list[Selector]:
    return list(_walk(promql_parser.parse(expr)))


def grouping_labels(expr: str) -> set[str]:
    """Every label in a `by` or `on`."""
    return set(_groups(promql_parser.parse(expr)))


def _walk(node: Any) -> Iterator[Selector]:
    if isinstance(node, promql_parser.VectorSelector):
        yield Selector(node.name, frozenset(_labels(node.matchers)))
    for child in _children(node):
        yield from _walk(child)


def _labels(matchers: Any) -> Iterator[tuple[str, str | None]]:
    for matcher in matchers.matchers:
        exact = matcher.op == promql_parser.MatchOp.Equal and matcher.value
        yield matcher.name, matcher.value if exact else None


def _groups(node: Any) -> Iterator[str]:
    modifier = getattr(node, "modifier", None)
    if isinstance(node, promql_parser.AggregateExpr) and modifier:
        yield from modifier.labels
    if isinstance(node, promql_parser.BinaryExpr) and modifier and modifier.matching:
        yield from modifier.matching.labels
    for child in _children(node):
        yield from _groups(child)


def _children(node: Any) -> Iterator[Any]:
    for name in ("lhs", "rhs", "expr", "vector_selector"):
        if not isinstance(child := getattr(node, name, None), str | None):
            yield child
    yield from getattr(node, "args", ())
