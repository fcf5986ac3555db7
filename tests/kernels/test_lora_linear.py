"""lorikeet::lora_linear against the reference, by every kernel it can choose."""

import random

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lorikeet.kernels import lora_linear as operator
from lorikeet.kernels.config import ExpandConfig, ShrinkConfig
from lorikeet.kernels.synthetic import Problem, make_problem

pytestmark = pytest.mark.slow

# Relative error of the change to y, whose own rounding is the largest part of it. The interpreter
# multiplies bfloat16 wrongly, so without a GPU only float16 is tried.
TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 1.5e-2}
HAS_GPU = torch.cuda.is_available()
DTYPES = [torch.float16, torch.bfloat16] if HAS_GPU else [torch.float16]
HAVE_ADAPTER = torch.tensor([False])
RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
SHAPES = {
    "row": (256, (128,)),
    "gate_up": (128, (96, 96)),
    "qkv": (192, (128, 32, 32)),
    "four_slices": (128, (64, 32, 48, 16)),
    "seven_slices": (64, (16, 16, 32, 16, 48, 16, 16)),
    "odd": (250, (66, 35)),
    "odd_row": (77, (33,)),
}


def run(problem: Problem, add_inputs: bool = True) -> None:
    fill_free_memory_with_nan(problem.x.device)
    step = problem.step
    torch.ops.lorikeet.lora_linear(
        problem.y, problem.x, problem.lora_a, problem.lora_b,
        step.tile_tables, step.rows, HAVE_ADAPTER, add_inputs,
    )  # fmt: skip


def check(problem: Problem, add_inputs: bool = True) -> None:
    before = problem.y.clone()
    expected = problem.expected(add_inputs)
    run(problem, add_inputs)
    base = problem.step.slot_of_token < 0
    assert torch.equal(problem.y[base], before[base]), "rows without adapter changed"
    start = before.float() if add_inputs else torch.zeros_like(expected)
    delta, expected_delta = (problem.y.float() - start)[~base], (expected - start)[~base]
    error = (delta - expected_delta).norm() / expected_delta.norm().clamp_min(1e-9)
    assert error <= TOLERANCE[problem.y.dtype]  # false for NaN


def fill_free_memory_with_nan(device: torch.device) -> None:
    """What the operator allocates next most likely starts as NaN."""
    for elements in (1 << 10, 1 << 14, 1 << 18, 1 << 22) if device.type == "cuda" else ():
        torch.full((elements,), float("nan"), device=device)


def mixed(num_tokens: int, num_slots: int) -> list[int]:
    return random.Random(num_tokens).choices(range(-1, num_slots), k=num_tokens)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("num_tokens", [1, 3, 40, 130])
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(shape: str, num_tokens: int, dtype: torch.dtype, device: str) -> None:
    k, widths = SHAPES[shape]
    check(make_problem(mixed(num_tokens, 3), k, widths, 16, 3, dtype, device))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("num_tokens", [2, 140])
@pytest.mark.parametrize("rank", RANKS)
def test_ranks(rank: int, num_tokens: int, dtype: torch.dtype, device: str) -> None:
    check(make_problem(mixed(num_tokens, 3), 160, (64, 48), rank, 3, dtype, device))


SLOTS = {
    "all_base": [-1] * 5,
    "one_adapter": [2] * 6,
    "last_slot_of_128": [127, -1, 127],
    "more_adapters_than_tokens": [9, 3],
    "holes_in_slots": [0, 7, 7, 31, -1, 0],
    "every_token_its_own": list(range(20)),
    "base_then_adapter": [-1] * 30 + [1] * 30,
}


@pytest.mark.parametrize("slots", SLOTS.values(), ids=SLOTS)
def test_maps(slots: list[int], device: str) -> None:
    check(make_problem(slots, 64, (32, 16), 16, 128, torch.float16, device))


@pytest.mark.parametrize("num_tokens", [2, 40, 300])
def test_without_inputs_only_adapter_rows_are_written(num_tokens: int, device: str) -> None:
    problem = make_problem(mixed(num_tokens, 2), 64, (32, 16), 16, 2, torch.float16, device)
    problem.y.fill_(float("nan"))
    expected = problem.expected(add_inputs=False)
    run(problem, add_inputs=False)
    assert torch.allclose(problem.y.float(), expected, rtol=1e-2, atol=1e-2, equal_nan=True)
    assert problem.y.isnan().any(1).equal(problem.step.slot_of_token < 0)


def test_no_tokens(device: str) -> None:
    problem = make_problem([], 64, (32,), 16, 2, torch.float16, device)
    run(problem)
    assert problem.y.shape == (0, 32)


def test_no_adapter_flag_leaves_everything(device: str) -> None:
    problem = make_problem([0, 1], 64, (32,), 16, 2, torch.float16, device)
    before, calls = problem.y.clone(), operator.calls["lora_linear"]
    step = problem.step
    torch.ops.lorikeet.lora_linear(
        problem.y, problem.x, problem.lora_a, problem.lora_b,
        step.tile_tables, step.rows, torch.tensor([True]), True,
    )  # fmt: skip
    assert torch.equal(problem.y, before)
    assert operator.calls["lora_linear"] == calls


def test_calls_are_counted(device: str) -> None:
    calls = operator.calls["lora_linear"]
    run(make_problem([0], 64, (32,), 16, 1, torch.float16, device))
    assert operator.calls["lora_linear"] == calls + 1


@pytest.mark.parametrize("layout", ["columns", "shifted", "transposed"])
def test_input_that_is_not_plain(layout: str, device: str) -> None:
    problem = make_problem(mixed(9, 2), 64, (32,), 16, 2, torch.float16, device)
    if layout == "columns":
        wide = torch.randn(9, 96, dtype=torch.float16, device=device)
        problem.x = wide[:, 16:80]
    elif layout == "shifted":
        problem.x = torch.randn(9 * 64 + 1, dtype=torch.float16, device=device)[1:].view(9, 64)
    else:
        problem.x = problem.x.T.contiguous().T
    check(problem)


@pytest.mark.parametrize("num_tokens", [4, 30, 100, 400])
def test_a_row_does_not_depend_on_the_others(num_tokens: int, device: str) -> None:
    """Bit for bit, as long as the number of tokens stays in its bucket."""
    slots = mixed(num_tokens, 4)
    slots[0] = 2
    alone = make_problem(slots, 128, (64, 32), 16, 4, torch.float16, device)
    other = make_problem(slots[:1] + mixed(num_tokens - 1, 4), 128, (64, 32), 16, 4, torch.float16, device)
    other.lora_a, other.lora_b = alone.lora_a, alone.lora_b
    other.x[0], other.y[0] = alone.x[0], alone.y[0]
    run(alone)
    run(other)
    assert torch.equal(alone.y[0], other.y[0])


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(slots=st.lists(st.integers(-1, 5), min_size=1, max_size=90), rank=st.sampled_from([8, 16, 64]))
def test_any_map(slots: list[int], rank: int, device: str) -> None:
    check(make_problem(slots, 96, (48, 16), rank, 6, torch.float16, device))


SHRINKS = {
    "gemv": ShrinkConfig("gemv", 4, 8, 128, 128),
    "swap": ShrinkConfig("swap", 16, 16, 64, 32),
    "tiled": ShrinkConfig("tiled", 32, 16, 128, 64),
}
EXPANDS = {
    "swap": ExpandConfig("swap", 16, 64, 32),
    "swap_in_steps": ExpandConfig("swap", 16, 32, 16),
    "tiled": ExpandConfig("tiled", 16, 32, 32, blocks=3),
    "tiled_in_steps": ExpandConfig("tiled", 64, 32, 16),
}


@pytest.mark.parametrize("expand", EXPANDS)
@pytest.mark.parametrize("shrink", SHRINKS)
@pytest.mark.parametrize("k", [256, 201])
def test_every_pair_of_kernels(k: int, shrink: str, expand: str, device: str) -> None:
    problem = make_problem(mixed(30, 3), k, (80, 48, 16), 24, 3, torch.float16, device)
    expected = problem.expected()
    operator.lora_slices_with(
        problem.y, problem.x, problem.lora_a, problem.lora_b, problem.step.tile_tables, problem.step.rows,
        True, SHRINKS[shrink], EXPANDS[expand],
    )  # fmt: skip
    assert (problem.y.float() - expected).norm() / expected.norm() < 1e-3


def test_operator_contract(device: str) -> None:
    problem = make_problem([0, -1, 1], 64, (32, 16), 16, 2, torch.float16, device)
    step = problem.step
    pytest.importorskip("sympy")  # the tracing part of PyTorch needs it
    torch.library.opcheck(
        torch.ops.lorikeet.lora_linear.default,
        (
            problem.y,
            problem.x,
            problem.lora_a,
            problem.lora_b,
            step.tile_tables,
            step.rows,
            HAVE_ADAPTER,
            True,
        ),
    )


@pytest.mark.gpu
def test_offsets_beyond_32_bits(device: str) -> None:
    """The last slot of B starts past 2**31 elements."""
    problem = make_problem([39], 64, (1 << 16,), 512, 40, torch.bfloat16, device)
    problem.lora_b[0] = torch.randn(70, 1, 1 << 16, 512, dtype=torch.bfloat16, device=device) * 512**-0.5
    problem.lora_a[0] = torch.randn(70, 1, 512, 64, dtype=torch.bfloat16, device=device) / 8
    problem.step = make_problem([69], 64, (16,), 16, 70, torch.bfloat16, device).step
    check(problem)
