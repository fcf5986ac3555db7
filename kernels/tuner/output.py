"""From outcomes to the files of one GPU: whole shapes, without rows that change nothing."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lorikeet.kernels.config import TOKEN_BUCKETS, Device
from lorikeet.kernels.shape import LayerShape
from lorikeet.kernels.tuned import TunedConfigs, load_folders
from lorikeet.kernels.tuned_file import (
    HEADER,
    Measured,
    TunedFileError,
    gpu_folder,
    read_measured,
    write_folder,
)
from lorikeet.kernels.tuner.cells import Cell
from lorikeet.kernels.tuner.search import Outcome

MeasuredRows = dict[tuple[LayerShape, int], Measured]


def write_outcomes(
    out: Path, header: Mapping[str, Any], device: Device, outcomes: Mapping[Cell, Outcome]
) -> Path:
    """Write `out`/<GPU>/lora_*.json; shapes that it has and that were not measured now stay."""
    folder = out / gpu_folder(device.name)
    rows = measured_rows(outcomes)
    measured_now = {shape for shape, _ in rows}
    try:
        _, before = read_measured(folder)
    except TunedFileError:  # absent, or of another kernel version
        before = {}
    kept = {key: row for key, row in before.items() if key[0] not in measured_now}
    others = load_folders(device, [out]).others
    needed = without_needless(kept | rows, device, others)
    write_folder(folder, {name: str(header[name]) for name in HEADER}, needed)
    return folder


def measured_rows(outcomes: Mapping[Cell, Outcome]) -> MeasuredRows:
    """A row for each bucket up to the first one that is missing: a bucket takes its next larger one's row."""
    rows: MeasuredRows = {}
    for shape in dict.fromkeys(cell.shape for cell in outcomes):
        for bucket in TOKEN_BUCKETS:
            outcome = outcomes.get(Cell(shape, bucket))
            if outcome is None:
                break
            rows[shape, bucket] = Measured(outcome.pair, round(outcome.us, 2), round(outcome.default_us, 2))
    return rows


def without_needless(rows: MeasuredRows, device: Device, others: Any = ()) -> MeasuredRows:
    """Without those that looking up would find anyway: in the next larger bucket or number of slots, or as
    the default."""
    needed: MeasuredRows = {}
    by_layer: dict[Any, dict[LayerShape, dict[int, Any]]] = {}
    for shape in sorted({shape for shape, _ in rows}, key=lambda shape: -shape.num_slots):
        kept = by_layer.setdefault((shape.k, shape.n, shape.rank, shape.dtype), {})
        for bucket in reversed(TOKEN_BUCKETS):
            row = rows.get((shape, bucket))
            if row is None:
                continue
            found, _ = TunedConfigs(kept, others).find(shape, bucket, device)
            if found != row.pair:
                kept.setdefault(shape, {})[bucket] = row.pair
                needed[shape, bucket] = row
    return needed
