"""Our wrapper's metadata against vLLM's own classes, on CPU tensors."""

import sys
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from vllm.lora.layers import LoRAMapping
from vllm.lora.ops.triton_ops.lora_kernel_metadata import LoRAKernelMeta
from vllm.lora.punica_wrapper import punica_gpu
from vllm.lora.punica_wrapper.punica_gpu import PunicaWrapperGPU

from lorikeet.kernels.punica_wrapper import LorikeetPunicaWrapper
from lorikeet.kernels.reference import lora_linear

MAX_LORAS = 4
MAX_TOKENS = 64
VOCABULARY = 1000
SLOT_TO_ID = [7, None, 3, 12]  # a hole, and ids out of order
IDS = st.sampled_from([0, 3, 7, 12])
META = (
    "token_lora_mapping",
    "token_indices_sorted_by_lora_ids",
    "active_lora_ids",
    "num_tokens_per_lora",
    "lora_token_start_loc",
)
MakeWrapper = Callable[..., PunicaWrapperGPU]


@pytest.fixture(scope="module")
def make() -> MakeWrapper:
    punica_gpu.LoRAKernelMeta = LoRAKernelMeta  # not imported there without a GPU

    def make_wrapper(
        kind: type[PunicaWrapperGPU], max_tokens: int = MAX_TOKENS, device: str = "cpu"
    ) -> PunicaWrapperGPU:
        config = SimpleNamespace(max_loras=MAX_LORAS, specialize_active_lora=True)
        return kind(max_tokens, 8, device, lora_config=config)

    return make_wrapper


def update(wrapper: PunicaWrapperGPU, tokens: list[int], prompts: list[int]) -> None:
    wrapper.update_metadata(LoRAMapping(tokens, prompts, True), SLOT_TO_ID, MAX_LORAS, VOCABULARY)


@settings(deadline=None, max_examples=60)
@given(
    steps=st.lists(st.tuples(st.lists(IDS, min_size=1, max_size=40), st.lists(IDS, max_size=6)), max_size=4)
)
def test_same_tensors_as_vllm(steps: list[tuple[list[int], list[int]]], make: MakeWrapper) -> None:
    ours, theirs = make(LorikeetPunicaWrapper), make(PunicaWrapperGPU)
    for tokens, prompts in steps:
        update(ours, tokens, prompts or [0])
        update(theirs, tokens, prompts or [0])
        assert_same(ours, theirs, len(tokens), len(prompts or [0]))


def assert_same(ours: PunicaWrapperGPU, theirs: PunicaWrapperGPU, num_tokens: int, num_prompts: int) -> None:
    assert ours.indices_len == theirs.indices_len
    assert ours.is_prefill == theirs.is_prefill
    for name in ("token_lora_indices", "sampler_indices", "sampler_indices_padded"):
        assert torch.equal(getattr(ours, name), getattr(theirs, name)), name
    assert torch.equal(ours._embeddings_indices[:num_tokens], theirs._embeddings_indices[:num_tokens])
    for kind, used in (("token_mapping_meta", num_tokens), ("prompt_mapping_meta", num_prompts)):
        mine, other = getattr(ours, kind), getattr(theirs, kind)
        assert torch.equal(mine.no_lora_flag_cpu, other.no_lora_flag_cpu)
        for name in META:
            left, right = getattr(mine, name), getattr(other, name)
            assert left.dtype == right.dtype
            assert left.shape == right.shape
            per_token = left.shape[0] == MAX_TOKENS
            if per_token and other.no_lora_flag_cpu:
                continue  # vLLM leaves the last step's; nothing reads them
            end = used if per_token else None
            assert torch.equal(left[:end], right[:end]), f"{kind}.{name}"


def test_tensors_keep_their_identity(make: MakeWrapper) -> None:
    """Captured graphs hold their addresses."""
    wrapper = make(LorikeetPunicaWrapper)
    before = [table.data_ptr() for table in wrapper.tile_tables] + [wrapper.rows.data_ptr()]
    update(wrapper, [7, 0, 3], [7])
    update(wrapper, [3] * 40, [3])
    assert before == [table.data_ptr() for table in wrapper.tile_tables] + [wrapper.rows.data_ptr()]


def test_a_shorter_step_leaves_no_tiles_of_the_last(make: MakeWrapper) -> None:
    wrapper = make(LorikeetPunicaWrapper)
    update(wrapper, [3] * 40, [3])
    update(wrapper, [0, 7], [7])
    for table in wrapper.tile_tables:
        assert table[0].tolist() == [0, 1, 1]
        assert (table[1:, 0] == -1).all()


def test_unknown_adapter_is_an_error(make: MakeWrapper) -> None:
    with pytest.raises(KeyError, match="99"):
        update(make(LorikeetPunicaWrapper), [7, 99], [7])


@pytest.mark.parametrize("tokens", [[7, 0, 3], [7, 7, 12, 3], [0, 12]])
def test_inherited_operators_cover_every_group(tokens: list[int], make: MakeWrapper) -> None:
    """With --specialize-active-lora vLLM's grid leaves out the rows without adapter, and loses a group."""
    wrapper = make(LorikeetPunicaWrapper)
    update(wrapper, tokens, tokens)
    for meta in (wrapper.token_mapping_meta, wrapper.prompt_mapping_meta):
        groups = int((meta.num_tokens_per_lora > 0).sum())
        assert meta.meta_args(len(tokens), True)[-1].item() >= groups


def test_linear_layer(make: MakeWrapper, device: str) -> None:
    wrapper = make(LorikeetPunicaWrapper, device=device)
    tokens = [7, 0, 3, 12, 3]
    update(wrapper, tokens, [7])
    lora_a = tuple(torch.randn(MAX_LORAS, 1, 16, 64, device=device).half() / 8 for _ in range(2))
    lora_b = tuple(torch.randn(MAX_LORAS, 1, width, 16, device=device).half() / 4 for width in (32, 16))
    x, y = torch.randn(5, 64, device=device).half(), torch.randn(5, 48, device=device).half()
    expected = y.float()
    slots = torch.tensor([SLOT_TO_ID.index(i) if i else -1 for i in tokens], device=device)
    lora_linear(expected, x, lora_a, lora_b, slots)
    wrapper.add_lora_linear(y, x, lora_a, lora_b, 1.0, (32, 16))
    assert torch.allclose(y.float(), expected, atol=2e-2)


@pytest.mark.parametrize("reason", ["scale", "dtype", "buffer"])
def test_what_is_not_ours_goes_to_vllm(
    reason: str, make: MakeWrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    monkeypatch.setattr(PunicaWrapperGPU, "add_lora_linear", lambda *args, **kwargs: calls.append(kwargs))
    dtype = torch.float32 if reason == "dtype" else torch.float16
    a, b = torch.zeros(MAX_LORAS, 1, 16, 64, dtype=dtype), torch.zeros(MAX_LORAS, 1, 32, 16, dtype=dtype)
    x, y = torch.zeros(2, 64, dtype=dtype), torch.zeros(2, 32, dtype=dtype)
    buffer = torch.zeros(1) if reason == "buffer" else None
    scale = 2.0 if reason == "scale" else 1.0
    make(LorikeetPunicaWrapper).add_lora_linear(
        y, x, (a,), (b,), scale, (32,), buffer=buffer, add_inputs=False
    )
    assert calls == [{"buffer": buffer, "add_inputs": False}]


def test_no_python_loop_over_tokens(make: MakeWrapper) -> None:
    """As many lines of Python run for 8192 tokens as for 64; vLLM's own metadata walks every token."""
    few, many = [3] * 64, [3] * 8192
    ours, theirs = make(LorikeetPunicaWrapper, 8192), make(PunicaWrapperGPU, 8192)
    assert num_lines_run(ours, many) == num_lines_run(ours, few)
    assert num_lines_run(theirs, many) > num_lines_run(theirs, few) + 8000  # the count sees such a loop


def num_lines_run(wrapper: PunicaWrapperGPU, tokens: list[int]) -> int:
    mapping = LoRAMapping(tokens, [7], True)
    wrapper.update_metadata(mapping, SLOT_TO_ID, MAX_LORAS, VOCABULARY)  # what is built once is built
    num_lines = 0

    def trace(frame: object, event: str, argument: object) -> object:
        nonlocal num_lines
        num_lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        wrapper.update_metadata(mapping, SLOT_TO_ID, MAX_LORAS, VOCABULARY)
    finally:
        sys.settrace(before)
    return num_lines
