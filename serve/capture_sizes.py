"""For which numbers of tokens CUDA graphs are captured where the operator doesn't say: fewer than vLLM's own.

A step is padded to the next captured size. vLLM captures every 8th size up to 256 and every 16th up to 512:
51 sizes, each with and without LoRA, which is a large part of a start. Here the distance grows with the size:
8 up to 128, then 16, from 256 on 32. That is 35 sizes, and steps of more than 64 tokens are still padded by
an eighth at most.
"""

from collections.abc import Iterator

# Number of tokens up to which sizes lie this far apart.
STEPS = ((128, 8), (256, 16), (1024, 32))
FIRST = (1, 2, 4)


def capture_sizes(max_num_seqs: int | None, max_num_batched_tokens: int | None, ceiling: int) -> list[int]:
    """Sizes up to twice the largest batch of decoding requests, as in vLLM, and at most `ceiling`.

    `max_num_seqs` is None where vLLM chooses it, which is 256 or more. A full batch has a size of its own.
    """
    reach = min(ceiling, 2 * max_num_seqs if max_num_seqs else ceiling)
    if max_num_batched_tokens:
        reach = min(reach, max_num_batched_tokens)
    sizes = {size for size in (*FIRST, *_grid()) if size <= reach}
    sizes |= {size for size in (max_num_seqs, max_num_batched_tokens) if size and size <= reach}
    return sorted(sizes)


def _grid() -> Iterator[int]:
    size = 0
    for end, step in STEPS:
        while size < end:
            size += step
            yield size
