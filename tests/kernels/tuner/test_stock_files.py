"""Files for vLLM's own kernels, asked for by vLLM's own look-up."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tuned_samples import H200, QKV
from vllm.lora.ops.triton_ops import utils

from lorikeet.kernels.config import TOKEN_BUCKETS
from lorikeet.kernels.tuner.cells import Cell
from lorikeet.kernels.tuner.search import Outcome
from lorikeet.kernels.tuner.stock_files import write_stock_files
from lorikeet.kernels.tuner.stock_space import (
    StockExpand,
    StockShrink,
    StockSpace,
    default_expand,
    default_shrink,
)

SHRINK, EXPAND = StockShrink(16, 16, 128, 16), StockExpand(16, 128, 16)
Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ask]:
    """vLLM's look-up, with our files of some outcomes; forgets what it has read afterwards."""
    outcomes = {
        Cell(QKV, bucket): Outcome((SHRINK, EXPAND), 1.0, StockSpace(H200).default(Cell(QKV, bucket)), 2.0)
        for bucket in TOKEN_BUCKETS
    }
    write_stock_files(tmp_path, {"gpu": "NVIDIA H100-Made Up"}, outcomes)
    monkeypatch.setenv("VLLM_TUNED_CONFIG_FOLDER", str(tmp_path))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H100-Made Up")
    caches = (utils.load_lora_op_config, utils.get_lora_op_configs)
    for cache in caches:
        cache.cache_clear()
    yield utils.get_lora_op_configs
    for cache in caches:
        cache.cache_clear()


@pytest.mark.parametrize("tokens", [1, 4, 8, 16, 100, 8192])
def test_vllm_finds_what_was_measured(tokens: int, ask: Ask) -> None:
    slots = QKV.num_slots + 1  # what vLLM calls max_loras there
    assert ask("shrink", slots, tokens, 4096, 16, 3) == asdict(SHRINK)
    for add_inputs in (True, False):
        assert ask("expand", slots, tokens, 4096, 16, 3, add_inputs) == asdict(EXPAND)


@pytest.mark.parametrize("num_slices", [1, 2])
def test_slices_that_were_not_measured_get_vllms_defaults(num_slices: int, ask: Ask) -> None:
    """Without an entry vLLM raises KeyError in the middle of a forward pass."""
    for tokens in TOKEN_BUCKETS:
        assert ask("shrink", 9, tokens, 4096, 16, num_slices) == asdict(default_shrink(tokens))
        assert ask("expand", 2, tokens, 512, 64, num_slices, True) == asdict(default_expand(num_slices))


def test_our_defaults_are_vllms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VLLM_TUNED_CONFIG_FOLDER", raising=False)
    utils.load_lora_op_config.cache_clear()
    utils.get_lora_op_configs.cache_clear()
    for bucket in TOKEN_BUCKETS:
        for n in ((4096,), (4096, 1024, 1024)):
            shrink, expand = StockSpace(H200).default(Cell(replace(QKV, n=n), bucket))
            assert utils.get_lora_op_configs("shrink", 9, bucket, 4096, 16, len(n)) == asdict(shrink)
            assert utils.get_lora_op_configs("expand", 9, bucket, 4096, 16, len(n), True) == asdict(expand)
    utils.load_lora_op_config.cache_clear()
    utils.get_lora_op_configs.cache_clear()


def test_provenance_stands_beside_the_files(ask: Ask, tmp_path: Path) -> None:
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "NVIDIA_H100_Made_Up_EXPAND_FALSE.json",
        "NVIDIA_H100_Made_Up_EXPAND_TRUE.json",
        "NVIDIA_H100_Made_Up_SHRINK.json",
        "provenance.json",
    ]
