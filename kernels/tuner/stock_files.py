"""Measured block sizes of vLLM's own kernels in vLLM's own format, for VLLM_TUNED_CONFIG_FOLDER.

vLLM nests by slots + 1, number of slices, tokens, K and N, and takes the nearest number where one is missing,
except for the number of slices: one that is missing ends the forward pass with a KeyError. So slices that
were not measured get vLLM's defaults. The files have no place for anything else; what they were measured on
stands in provenance.json beside them.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lorikeet.kernels.config import TOKEN_BUCKETS
from lorikeet.kernels.tuned_file import write_atomically
from lorikeet.kernels.tuner.cells import Cell
from lorikeet.kernels.tuner.search import Outcome
from lorikeet.kernels.tuner.stock_space import (
    StockExpand,
    StockShrink,
    as_vllm_file_row,
    default_expand,
    default_shrink,
)

SLICES = (1, 2, 3)
Table = dict[str, Any]


def write_stock_files(folder: Path, header: Mapping[str, Any], outcomes: Mapping[Cell, Outcome]) -> Path:
    """Write `folder`/<GPU>_SHRINK.json, _EXPAND_TRUE.json and _EXPAND_FALSE.json."""
    folder.mkdir(parents=True, exist_ok=True)
    shrink, expand = stock_tables({cell: outcome.pair for cell, outcome in outcomes.items()})
    gpu = str(header["gpu"]).replace(" ", "_").replace("-", "_")  # as vLLM names its files
    write_atomically(folder / f"{gpu}_SHRINK.json", json.dumps(shrink, separators=(",", ":")) + "\n")
    for add_inputs in ("TRUE", "FALSE"):  # measured with True; two streams ask for False, the same kernel
        path = folder / f"{gpu}_EXPAND_{add_inputs}.json"
        write_atomically(path, json.dumps(expand, separators=(",", ":")) + "\n")
    write_atomically(folder / "provenance.json", json.dumps(dict(header), indent=1) + "\n")
    return folder


def stock_tables(pairs: Mapping[Cell, tuple[StockShrink, StockExpand]]) -> tuple[Table, Table]:
    """The nested tables of shrink and expand."""
    shrink: Table = {}
    expand: Table = {}
    for cell, (first, second) in pairs.items():
        shape = cell.shape
        outer = (shape.num_slots + 1, len(shape.n))
        for tokens in cell.token_counts:
            _put(shrink, (*outer, tokens, shape.k, shape.rank), first)
            _put(expand, (*outer, tokens, shape.rank, max(shape.n)), second)
    for num_slots in shrink:
        for num_slices in SLICES:
            if str(num_slices) in shrink[num_slots]:
                continue
            for tokens in TOKEN_BUCKETS:
                _put(shrink, (num_slots, num_slices, tokens, 4096, 16), default_shrink(tokens))
                _put(expand, (num_slots, num_slices, tokens, 16, 4096), default_expand(num_slices))
    return shrink, expand


def _put(table: Table, keys: tuple[Any, ...], config: StockShrink | StockExpand) -> None:
    *outer, last = map(str, keys)
    for key in outer:
        table = table.setdefault(key, {})
    table[last] = as_vllm_file_row(config)
