"""The ranks tell each other what they know, at one place of the start, and so decide alike."""

from dataclasses import asdict
from typing import Any

from lorikeet.kernels.autotune_decision import Vote


class VoteFailedError(RuntimeError):
    """A rank ended while the others waited for its vote."""


def all_votes(vote: Vote, group: Any, world_size: int) -> list[Vote]:
    """Every rank's vote, in order of rank; blocks until all have voted.

    `group` is the ranks' CPU process group (gloo): the same that vLLM's own autotune pass uses.

    Raises:
        VoteFailedError: a rank is gone. The start ends then, as it would at vLLM's next collective.
    """
    if world_size == 1:
        return [vote]
    import torch.distributed

    gathered: list[Any] = [None] * world_size
    try:
        torch.distributed.all_gather_object(gathered, asdict(vote), group=group)
    except RuntimeError as exc:
        raise VoteFailedError(
            f"rank {vote.rank}: another rank ended before it voted on FlashInfer's autotune pass; "
            "its own error comes first in the log"
        ) from exc
    return [Vote(**values) for values in gathered]
