"""How well a model's layers are covered by measured block sizes, by shape and bucket of tokens."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lorikeet.kernels.config import TOKEN_BUCKETS, Device, token_bucket
from lorikeet.kernels.matches import MATCHES, Match
from lorikeet.kernels.shape import LayerShape
from lorikeet.kernels.tuned import TunedConfigs


@dataclass(frozen=True)
class Coverage:
    """One shape: how the block sizes of each bucket of tokens are found."""

    shape: LayerShape
    matches: dict[int, Match]  # bucket → match, smallest bucket first


def coverage(
    shapes: Iterable[LayerShape], max_tokens: int, device: Device, tuned: TunedConfigs
) -> list[Coverage]:
    """For each shape once, every bucket that a step of at most `max_tokens` tokens falls into.

    It needs no GPU: `device` says which GPU is meant, by its name, capability and shared memory.
    """
    buckets = [bucket for bucket in TOKEN_BUCKETS if bucket <= token_bucket(max_tokens)]
    return [
        Coverage(shape, {tokens: tuned.find(shape, tokens, device)[1] for tokens in buckets})
        for shape in dict.fromkeys(shapes)
    ]


def count_matches(covered: Iterable[Coverage]) -> dict[Match, int]:
    """Lookups by match, the most exact first, those that never happened left out."""
    counts = Counter(match for row in covered for match in row.matches.values())
    return {match: counts[match] for match in MATCHES if counts[match]}


def coverage_table(covered: Sequence[Coverage]) -> str:
    """Lines for a log: a shape a line, a bucket a column."""
    if not covered:
        return ""
    buckets = list(covered[0].matches)
    names = [str(row.shape) for row in covered]
    width = max(map(len, names))
    lines = [f"{'tokens up to':<{width}} " + " ".join(f"{bucket:>10}" for bucket in buckets)]
    for name, row in zip(names, covered, strict=True):
        lines.append(f"{name:<{width}} " + " ".join(f"{match:>10}" for match in row.matches.values()))
    return "\n".join(lines)
