"""The sizes of CUDA graphs: enough for the configured concurrency, and few."""

from itertools import pairwise
from types import SimpleNamespace

import pytest

from lorikeet.serve.capture_sizes import capture_sizes

WHOLE = capture_sizes(None, 8192, 512)


def test_fewer_than_vllms_51_and_up_to_the_same_size():
    assert len(WHOLE) == 35
    assert WHOLE[-1] == 512
    assert capture_sizes(256, 8192, 512) == capture_sizes(1024, 8192, 512) == WHOLE
    assert capture_sizes(1024, 8192, 1024)[-1] == 1024


@pytest.mark.parametrize("num_tokens", range(65, 513))
def test_above_64_tokens_an_eighth_is_padded_at_most(num_tokens):
    padded = next(size for size in WHOLE if size >= num_tokens)
    assert padded - num_tokens <= num_tokens / 8


def test_up_to_128_tokens_they_are_vllms():
    assert [size for size in WHOLE if size <= 128] == [1, 2, 4, *range(8, 129, 8)]


@pytest.mark.parametrize(("max_num_seqs", "largest"), [(1, 2), (4, 8), (16, 32), (100, 192), (300, 512)])
def test_few_requests_need_few_sizes(max_num_seqs, largest):
    sizes = capture_sizes(max_num_seqs, 8192, 512)
    assert sizes[-1] == largest
    assert max_num_seqs in sizes  # a full batch is not padded


def test_no_step_has_more_than_the_token_budget():
    assert capture_sizes(256, 100, 512)[-1] == 100


def test_they_rise():
    for max_num_seqs in range(1, 600):
        sizes = capture_sizes(max_num_seqs, 2048, 512)
        assert all(smaller < larger for smaller, larger in pairwise(sizes))
        assert sizes[0] == 1


@pytest.mark.parametrize("max_num_seqs", [1, 3, 100, 256, 1024])
def test_vllm_takes_them_as_they_are(max_num_seqs):
    from vllm.config import CompilationConfig, CUDAGraphMode, VllmConfig

    sizes = capture_sizes(max_num_seqs, 8192, 512)
    compilation = CompilationConfig(
        cudagraph_mode=CUDAGraphMode.FULL_AND_PIECEWISE, cudagraph_capture_sizes=sizes
    )
    config = SimpleNamespace(
        model_config=SimpleNamespace(enforce_eager=False), compilation_config=compilation,
        scheduler_config=SimpleNamespace(max_num_seqs=max_num_seqs, max_num_batched_tokens=8192),
        uniform_decode_query_len=1, speculative_config=None, performance_mode="balanced",
        parallel_config=SimpleNamespace(tensor_parallel_size=1),
    )  # fmt: skip
    VllmConfig._set_cudagraph_sizes(config)
    assert compilation.cudagraph_capture_sizes == sizes
    assert compilation.max_cudagraph_capture_size == sizes[-1]
