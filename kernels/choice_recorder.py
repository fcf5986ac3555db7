"""Counts which operators ask FlashInfer's autotuner for a variant, and how often it had none tuned.

Three methods of FlashInfer's AutoTuner are replaced in this process. Each does what it did, and adds one to
a dictionary: no lock, print or look at a tensor, so that it is safe wherever the original is, traced by
Dynamo or not. A graph's replay runs no host code and counts nothing: what decoding uses shows in capture.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Literal

from lorikeet.kernels.flashinfer_scan import committed
from lorikeet.kernels.seams import parameters

Period = Literal["start", "profile", "graph_profile", "warm_up", "tuning", "capture", "serving"]
EVIDENCE: tuple[Period, ...] = ("start", "profile", "graph_profile")  # what there is before the decision

# What FlashInfer 0.7.0.post1 has.
EXPECTED = {
    "choose_one": "(self, custom_op, runners, tuning_config, inputs, **kwargs)",
    "search_cache": "(self, custom_op, runners, input_shapes, tuning_config, inputs=None)",
    "rank_tactics": "(self, custom_op, runners, tuning_config, inputs, k=1, **kwargs)",
}


class RecorderOffError(RuntimeError):
    """FlashInfer is not as the recorder expects; `reason` is from a small closed set."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


@dataclass
class Counts:
    asked: dict[str, int] = field(default_factory=dict)  # operator → calls
    untuned: dict[str, int] = field(default_factory=dict)  # operator → of these, answered with a guess


class ChoiceRecorder:
    """The counts of each period of a worker's life. One thread runs a worker's model, and it alone counts."""

    def __init__(self) -> None:
        self.periods: dict[Period, Counts] = {}
        self.period: Period = "start"
        self._enter(self.period)

    @contextmanager
    def during(self, period: Period) -> Iterator[None]:
        """Count to `period` until the end of the block, then to what it was before."""
        outer = self.period
        self._enter(period)
        try:
            yield
        finally:
            self._enter(outer)

    def serve(self) -> None:
        """Count to `serving` from now on."""
        self._enter("serving")

    def asked(self, *periods: Period) -> set[str]:
        """The operators that asked in one of the periods."""
        return {op for period in periods if period in self.periods for op in self.periods[period].asked}

    def untuned(self, period: Period) -> dict[str, int]:
        return dict(self.periods[period].untuned) if period in self.periods else {}

    def install(self, autotuner: type, version: str) -> Callable[[], None]:
        """Count calls of this AutoTuner class; returns what takes that back.

        Raises:
            RecorderOffError: the version or a signature is not what this was written for.
        """
        check(autotuner, version)
        stock = {name: vars(autotuner)[name] for name in EXPECTED}
        for name in ("choose_one", "rank_tactics"):
            setattr(autotuner, name, self._counting(stock[name]))
        autotuner.search_cache = self._counting_misses(stock["search_cache"])  # type: ignore[attr-defined]

        def uninstall() -> None:
            for name, method in stock.items():
                setattr(autotuner, name, method)

        return uninstall

    def _enter(self, period: Period) -> None:
        counts = self.periods.setdefault(period, Counts())
        self.period, self._asked, self._untuned = period, counts.asked, counts.untuned

    def _counting(self, stock: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(stock)
        def counting(tuner: Any, custom_op: str, *args: Any, **kwargs: Any) -> Any:
            asked = self._asked
            asked[custom_op] = asked.get(custom_op, 0) + 1
            return stock(tuner, custom_op, *args, **kwargs)

        return counting

    def _counting_misses(self, stock: Callable[..., Any]) -> Callable[..., Any]:
        """`search_cache` is the one place that tells a missing variant from one that is tuned to be -1."""

        @wraps(stock)
        def counting(tuner: Any, custom_op: str, *args: Any, **kwargs: Any) -> Any:
            found = stock(tuner, custom_op, *args, **kwargs)
            if custom_op not in self._asked:  # asked for directly: PCIe all-reduce does
                self._asked[custom_op] = 1
            if not found[0] and not tuner.is_tuning_mode:
                self._untuned[custom_op] = self._untuned.get(custom_op, 0) + 1
            return found

        return counting


def check(autotuner: type, version: str) -> None:
    """Raises RecorderOffError where FlashInfer has changed."""
    if version != committed().version:
        raise RecorderOffError(
            "flashinfer_version",
            f"FlashInfer is {version}, the registry was written for {committed().version}",
        )
    for name, expected in EXPECTED.items():
        method = vars(autotuner).get(name)
        got = "missing" if method is None else parameters(method)
        if got != expected:
            raise RecorderOffError(
                "flashinfer_signature", f"FlashInfer's AutoTuner.{name} is {got}, expected {expected}"
            )
