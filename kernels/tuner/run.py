"""One run of the tuner from start to files: the measuring process, the compilers, the results, the output."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from lorikeet.kernels.config import Device, ExpandConfig, ShrinkConfig
from lorikeet.kernels.tuned_file import gpu_folder
from lorikeet.kernels.tuner import tools
from lorikeet.kernels.tuner.cells import Cell
from lorikeet.kernels.tuner.compile_lora import compile_kernel, lora_tasks, num_workers
from lorikeet.kernels.tuner.compile_stock import compile_stock, stock_tasks
from lorikeet.kernels.tuner.measurer import MakeTools, Measurer
from lorikeet.kernels.tuner.output import write_outcomes
from lorikeet.kernels.tuner.precompile import Compile, Precompiler
from lorikeet.kernels.tuner.results import ConfigTypes, Results
from lorikeet.kernels.tuner.search import Outcome
from lorikeet.kernels.tuner.space import LoraSpace
from lorikeet.kernels.tuner.stock_files import write_stock_files
from lorikeet.kernels.tuner.stock_space import StockExpand, StockShrink, StockSpace
from lorikeet.kernels.tuner.tune import Tuning

WRITE_EVERY_S = 30.0


@dataclass(frozen=True)
class Implementation:
    """What differs between tuning our kernels and tuning vLLM's."""

    make_tools: MakeTools
    make_space: Callable[[Device], Any]
    tasks: Callable[..., Any]
    compile: Compile
    types: ConfigTypes
    write: Callable[[Path, Mapping[str, Any], Device, Mapping[Cell, Outcome]], Path]
    journal: str


def _write_stock(
    out: Path, header: Mapping[str, Any], device: Device, outcomes: Mapping[Cell, Outcome]
) -> Path:
    return write_stock_files(out / gpu_folder(device.name) / "vllm", header, outcomes)


LORA = Implementation(
    tools.lora_tools, LoraSpace, lora_tasks, compile_kernel,
    ConfigTypes(ShrinkConfig, ExpandConfig), write_outcomes, "measured.jsonl",
)  # fmt: skip
STOCK = Implementation(
    tools.stock_tools, StockSpace, stock_tasks, compile_stock,
    ConfigTypes(StockShrink, StockExpand), _write_stock, "measured-vllm.jsonl",
)  # fmt: skip


@dataclass
class Report:
    """What a run did."""

    folder: Path
    done: bool  # every cell, rather than the time being over or an interruption
    outcomes: dict[Cell, Outcome]  # of the cells asked for
    skipped: dict[Cell, str]
    num_restarts: int

    def lines(self) -> list[str]:
        """For people."""
        lines = [f"{len(self.outcomes)} cells measured, {len(self.skipped)} skipped; files in {self.folder}"]
        for name, chosen in (
            ("up to 32 tokens", [o for c, o in self.outcomes.items() if c.bucket <= 32]),
            ("more tokens", [o for c, o in self.outcomes.items() if c.bucket > 32]),
        ):
            if chosen:
                gains = [outcome.default_us / outcome.us for outcome in chosen]
                lines.append(
                    f"{name}: {statistics.geometric_mean(gains):.3f} times as fast as the defaults "
                    f"(geometric mean of {len(gains)}, least {min(gains):.3f}, most {max(gains):.3f})"
                )
        failed: dict[str, int] = {}
        for outcome in self.outcomes.values():
            for reason, count in outcome.failed.items():
                failed[reason] = failed.get(reason, 0) + count
        if failed:
            lines.append("candidates left out: " + ", ".join(f"{n} {why}" for why, n in failed.items()))
        if self.num_restarts:
            lines.append(f"the measuring process was restarted {self.num_restarts} times")
        lines += [f"skipped {cell}: {why}" for cell, why in self.skipped.items()]
        if not self.done:
            lines.append("not everything was measured: the same command goes on where this one ended")
        return lines


def run(
    implementation: Implementation,
    cells: Sequence[Cell],
    out: Path,
    seconds: float = float("inf"),
    workers: int | None = None,
    progress: Callable[[int, int, str], None] = lambda *_: None,
) -> Report:
    """Measure `cells` and write the files under `out`; an interruption keeps what was measured.

    `progress` is told how many cells are measured, of how many, and the last one's result.

    Raises:
        MeasurerError: there is no GPU, or the measuring process does not start.
    """
    deadline = time.monotonic() + seconds
    precompiler = Precompiler(implementation.compile, workers or num_workers())
    done = False
    try:
        with Measurer(implementation.make_tools) as measurer:
            header = measurer.header
            device = device_of(header)
            space = implementation.make_space(device)
            results = Results(
                out / gpu_folder(device.name) / implementation.journal, header, implementation.types
            )
            written = time.monotonic()

            def after_cell(text: str) -> None:
                nonlocal written
                progress(sum(cell in results.outcomes for cell in cells), len(cells), text)
                if time.monotonic() - written > WRITE_EVERY_S:
                    implementation.write(out, header, device, results.outcomes)
                    written = time.monotonic()

            tuning = Tuning(
                cells,
                space,
                partial(implementation.tasks, space),
                measurer,
                precompiler,
                results,
                deadline,
                after_cell,
            )
            try:
                done = tuning.run()
            except KeyboardInterrupt:
                pass
            finally:
                folder = implementation.write(out, header, device, results.outcomes)
            outcomes = {cell: results.outcomes[cell] for cell in cells if cell in results.outcomes}
            return Report(folder, done, outcomes, tuning.skipped, measurer.num_restarts)
    finally:
        precompiler.close()


def device_of(header: Mapping[str, Any]) -> Device:
    """The GPU that a measuring process reports."""
    device = header["device"]
    return Device(tuple(device["capability"]), device["shared_bytes"], device["name"])
