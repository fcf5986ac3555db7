"""Measure one cell's candidates on the GPU of this process: our kernels, or vLLM's.

Each candidate is captured in a CUDA graph whose launches use different weights, more than the L2 cache holds,
as in a model whose layers follow each other; a turn is one replay.
"""

import gc
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import torch

from lorikeet.kernels.synthetic import Problem, Step, Weights, make_step, make_weights
from lorikeet.kernels.tuner.cells import Cell, spread_slots
from lorikeet.kernels.tuner.search import AnyPair, CandidateError, CellError, Timer

MIN_TOUCHED_BYTES = 130e6  # by one graph: twice the L2 cache of an H200
MAX_COPIES = 48
Launch = Callable[[], None]
Capture = Callable[[Sequence[Launch]], Timer]


class Kernels(Protocol):
    """One implementation of shrink and expand that can be launched with given block sizes."""

    def launch(self, problem: Problem, pair: AnyPair) -> None: ...


class LoraKernels:
    """Ours."""

    def launch(self, problem: Problem, pair: AnyPair) -> None:
        from lorikeet.kernels.lora_linear import lora_slices_with

        step = problem.step
        lora_slices_with(
            problem.y, problem.x, problem.lora_a, problem.lora_b, step.tile_tables, step.rows, True, *pair
        )


class GpuBench:
    """Keeps one cell's tensors, and its weights for the next cell with the same."""

    def __init__(
        self, kernels: Kernels, capture: Capture, device: str = "cuda", max_copies: int = MAX_COPIES
    ) -> None:
        self._kernels, self._capture, self._device = kernels, capture, device
        self._max_copies = max_copies  # of the weights
        self._cell: Cell | None = None
        self._is_new = True  # nothing was launched for the cell
        self._weights: tuple[Any, list[Weights]] = (None, [])
        self._steps: list[Step] = []
        self._expected: list[torch.Tensor] = []

    def prepare(self, cell: Cell, pair: AnyPair) -> Timer:
        self._open(cell)
        launches = self._launches(cell, pair)
        try:
            # What a first launch makes must not be made while a graph is captured: kernels are loaded for
            # each number of tokens, vLLM's operators make tables of pointers for each copy of the weights.
            for launch in launches if self._is_new else launches[: len(cell.token_counts)]:
                launch()
            self._is_new = False
            return self._capture(launches)
        except Exception as exc:
            raise _candidate_error(exc) from exc

    def error(self, cell: Cell, pair: AnyPair) -> float:
        """The largest over the cell's numbers of tokens."""
        self._open(cell)
        errors: list[float] = []
        for problem in self._problems(cell, fresh=True):
            before = problem.y.float()
            expected = problem.expected()
            self._kernels.launch(problem, pair)
            errors.append(((problem.y.float() - expected).norm() / (expected - before).norm()).item())
        return float("nan") if any(map(math.isnan, errors)) else max(errors)

    def _open(self, cell: Cell) -> None:
        if cell == self._cell:
            return
        shape, dtype = cell.shape, getattr(torch, cell.shape.dtype)
        key = (shape.k, shape.n, shape.rank, shape.num_slots, shape.dtype)
        slot_bytes = shape.rank * (shape.k * len(shape.n) + sum(shape.n)) * dtype.itemsize
        touched = slot_bytes * min(shape.num_slots, *cell.token_counts)
        num_copies = max(2, min(self._max_copies, int(MIN_TOUCHED_BYTES / touched) + 1))
        kept = self._weights[1] if self._weights[0] == key else []
        self._weights = (key, kept)  # the old ones are freed before new ones are made
        self._cell = None
        try:
            while len(kept) < num_copies:
                kept.append(make_weights(shape.k, shape.n, shape.rank, shape.num_slots, dtype, self._device))
            self._copies = kept[:num_copies]
            self._steps = [
                make_step(spread_slots(tokens, shape.num_slots), shape.num_slots, self._device)
                for tokens in cell.token_counts
            ]
            self._xs = [
                torch.randn(tokens, shape.k, dtype=dtype, device=self._device) for tokens in cell.token_counts
            ]
            self._ys = [
                torch.randn(tokens, sum(shape.n), dtype=dtype, device=self._device)
                for tokens in cell.token_counts
            ]
        except torch.OutOfMemoryError as exc:
            self._weights = (None, [])
            raise CellError(f"{cell}: its weights do not fit into the GPU's free memory") from exc
        self._cell, self._is_new = cell, True

    def _problems(self, cell: Cell, copy: int = 0, fresh: bool = False) -> list[Problem]:
        lora_a, lora_b = self._copies[copy]
        return [
            Problem(torch.randn_like(y) if fresh else y, x, lora_a, lora_b, step)
            for x, y, step in zip(self._xs, self._ys, self._steps, strict=True)
        ]

    def _launches(self, cell: Cell, pair: AnyPair) -> list[Launch]:
        """One launch for each copy of the weights and number of tokens; y is the same in all."""
        return [
            partial(self._kernels.launch, problem, pair)
            for copy in range(len(self._copies))
            for problem in self._problems(cell, copy)
        ]


class GraphCapture:
    """Captures launches in a CUDA graph; all graphs share their scratch memory, since one runs at a time."""

    def __init__(self) -> None:
        self._stream = torch.cuda.Stream()
        self._pool = torch.cuda.graph_pool_handle()
        self._events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        # PyTorch refuses to capture into a pool whose last graph is gone: this one stays.
        self._first_of_pool = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._first_of_pool, pool=self._pool, stream=self._stream):
            torch.zeros(1, device="cuda")

    def __call__(self, launches: Sequence[Launch]) -> Timer:
        """A timer that replays all launches and says µs a launch."""
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        # torch.cuda.graph() would collect garbage and empty PyTorch's cache each time, which takes longer
        # than all else here. Garbage must only not be collected meanwhile.
        gc.disable()
        try:
            with torch.cuda.stream(self._stream):
                graph.capture_begin(pool=self._pool)
                try:
                    for launch in launches:
                        launch()
                finally:
                    graph.capture_end()
        finally:
            gc.enable()
        begin, end = self._events

        def replay_us() -> float:
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            return float(begin.elapsed_time(end)) * 1e3 / len(launches)

        replay_us()
        return replay_us


def _candidate_error(exc: Exception) -> Exception:
    """What a candidate that cannot run is counted as; errors that leave the GPU unusable pass."""
    if "CUDA error" in str(exc):
        return exc
    if isinstance(exc, torch.OutOfMemoryError):
        torch.cuda.empty_cache()
        return CandidateError("out of memory")
    return CandidateError(type(exc).__name__)
