"""Block sizes: pure, bounded in number, and within what a GPU has."""

import pytest

from lorikeet.kernels.config import (
    MAX_PDL_TOKENS,
    TOKEN_BUCKETS,
    Device,
    default_expand_config,
    default_shrink_config,
    even_chunk,
    token_bucket,
)

SHAPES = [(4096, (4096, 1024, 1024)), (14336, (4096,)), (576, (1536, 1536)), (77, (33,))]
RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
SMALL = Device(capability=(8, 9), shared_bytes=101_376)


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize(("k", "widths"), SHAPES, ids=str)
def test_equal_within_a_bucket(k: int, widths: tuple[int, ...], rank: int) -> None:
    """Every choice is compiled before the server is ready by one launch for each bucket."""
    for low, high in zip((0, *TOKEN_BUCKETS), TOKEN_BUCKETS, strict=False):
        pairs = set()
        for tokens in (low + 1, high):
            shrink = default_shrink_config(k, len(widths), rank, 8, tokens, Device())
            splits = shrink.num_splits(k)
            pairs.add((shrink, default_expand_config(widths, rank, 8, tokens, splits, Device())))
        assert len(pairs) == 1


@pytest.mark.parametrize("tokens", TOKEN_BUCKETS)
@pytest.mark.parametrize("rank", RANKS)
def test_dependent_launch_for_decode_on_gpus_that_have_it(rank: int, tokens: int) -> None:
    for device in (Device(), SMALL):
        expected = device.dependent_launch and tokens <= MAX_PDL_TOKENS
        assert default_shrink_config(4096, 1, rank, 8, tokens, device).pdl is expected
        assert default_expand_config((4096,), rank, 8, tokens, 4, device).pdl is expected


@pytest.mark.parametrize("tokens", TOKEN_BUCKETS)
@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize(("k", "widths"), SHAPES, ids=str)
def test_chunks_cover_k(k: int, widths: tuple[int, ...], rank: int, tokens: int) -> None:
    config = default_shrink_config(k, len(widths), rank, 8, tokens, SMALL)
    splits = config.num_splits(k)
    assert (splits - 1) * config.chunk_k < k <= splits * config.chunk_k


def test_beyond_the_last_bucket() -> None:
    assert token_bucket(TOKEN_BUCKETS[-1] + 1) == TOKEN_BUCKETS[-1]


@pytest.mark.parametrize(("k", "chunk"), [(3072, 1536), (4096, 2048), (14336, 2048), (100, 128)])
def test_even_chunks(k: int, chunk: int) -> None:
    assert even_chunk(k, 2048, 128) == chunk
