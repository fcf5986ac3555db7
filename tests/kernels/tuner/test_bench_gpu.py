"""The tuner's own measuring on a real GPU: several cells in one process, ours and vLLM's kernels."""

from dataclasses import replace

import pytest
import torch

from lorikeet.kernels.shape import LayerShape
from lorikeet.kernels.tuner.cells import Cell
from lorikeet.kernels.tuner.search import MAX_ERROR, search
from lorikeet.kernels.tuner.tools import lora_tools, stock_tools

pytestmark = pytest.mark.gpu
SHAPE = LayerShape(1024, (512, 256), 16, 4)


@pytest.mark.parametrize("make_tools", [lora_tools, stock_tools])
def test_cells_one_after_the_other(make_tools) -> None:
    """The second one captures after the first one's graphs are gone."""
    tools = make_tools()
    for cell in (Cell(SHAPE, 4), Cell(replace(SHAPE, rank=32), 16), Cell(SHAPE, 128)):
        default = tools.space.default(cell)
        firsts = tools.space.firsts(cell)[:4]
        outcome = search(cell, tools.space, tools.bench, [(f, tools.space.second(cell, f)) for f in firsts])
        assert 0 < outcome.us <= outcome.default_us < 1000
        assert outcome.default == default
        assert not outcome.failed
        assert tools.bench.error(cell, outcome.pair) <= MAX_ERROR


def test_a_timer_measures_the_gpu() -> None:
    """Sixteen times the tokens take longer, and the same takes about the same."""
    tools = lora_tools()
    small, large = Cell(SHAPE, 128), Cell(SHAPE, 8192)
    first, second = (tools.bench.prepare(small, tools.space.default(small)) for _ in range(2))
    first_us, second_us = (min(timer() for _ in range(20)) for timer in (first, second))
    assert abs(first_us - second_us) < 0.2 * first_us
    longer = tools.bench.prepare(large, tools.space.default(large))
    torch.cuda.synchronize()
    assert min(longer() for _ in range(20)) > 2 * first_us
