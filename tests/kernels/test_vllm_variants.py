"""vLLM on a GPU with our kernels, in each way it can run them: what `benchmarks/lora_variants.py` finds."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "lora_variants.py"
LIMIT_S = 600
MIN_COMMON = (
    0.9  # of the five best tokens at a text's first position; none are common when an adapter is lost
)
Rows = dict[tuple[str, str | None], dict[str, Any]]

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """Rows by what was run and what it was compared with."""
    out = tmp_path_factory.mktemp("variants")
    env = {
        name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"
    }  # it imports siblings
    subprocess.run([sys.executable, str(SCRIPT), "--out", str(out)], env=env, timeout=LIMIT_S, check=True)
    lines = [json.loads(line) for line in (out / "outputs.jsonl").read_text().splitlines()]
    return {(line["variant"], line.get("compared_with")): line for line in lines}


@pytest.mark.parametrize(
    "variant",
    ["", ", V1 runner", ", dual stream", ", eager", ", piecewise graphs", ", specialize-active-lora"],
)
def test_writes_what_stock_writes(variant: str, rows: Rows) -> None:
    """It also answers at all: a kernel compiled after start is an error there."""
    row = rows[f"lorikeet{variant}", "vllm"]
    assert row["same_first_token"] == row["texts"]
    assert row["common_top_tokens"] >= MIN_COMMON * 5 * row["texts"]


def test_the_comparison_sees_a_lost_adapter(rows: Rows) -> None:
    row = rows["adapters", "base"]
    assert row["common_top_tokens"] < MIN_COMMON * 5 * row["texts"]


def test_specialised_graphs_lose_no_adapter(rows: Rows) -> None:
    """Stock's do, in batches that mix base requests with adapters."""
    ours = rows["lorikeet, specialize-active-lora", "lorikeet"]
    stock = rows["vllm, specialize-active-lora", "vllm"]
    assert ours["same_text"] > stock["same_text"]


@pytest.mark.parametrize("moment", ["beside", "after"])
def test_an_adapter_of_nan_leaves_base_requests_alone(moment: str, rows: Rows) -> None:
    row = rows[f"lorikeet, base {moment} NaN", "lorikeet, base before"]
    assert row["failed"] == 0
    assert row["same_text"] == row["texts"]


def test_graphs_of_stock_are_not_reused(rows: Rows) -> None:
    assert rows["lorikeet on stock's graphs, with our key", None]["ready"]
    bypassed = rows["lorikeet on stock's graphs, without our key", None]
    assert bypassed["refused"]
    assert not bypassed["ready"]
