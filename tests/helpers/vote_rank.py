"""One rank of a vote on FlashInfer's autotune pass: vote_rank.py RANK PORT VOTE, a JSON object or `die`.

Prints the decision's outcome and reason, or what failed.
"""

import json
import os
import sys
from datetime import timedelta

import torch.distributed as dist

from lorikeet.kernels.autotune_decision import Vote, decide
from lorikeet.kernels.autotune_vote import VoteFailedError, all_votes

LIMIT_S = 30


def main(rank: int, port: str, vote: str) -> None:
    where = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", where, timedelta(seconds=LIMIT_S), world_size=2, rank=rank)
    dist.barrier()  # both are connected
    if vote == "die":
        os._exit(9)
    try:
        decision = decide(all_votes(Vote(rank, **json.loads(vote)), dist.group.WORLD, 2))
        print(decision.outcome, decision.reason)
    except VoteFailedError as exc:
        print(exc)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
