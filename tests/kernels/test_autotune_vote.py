"""The vote between two real processes, over gloo as in vLLM."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from lorikeet.kernels.autotune_decision import Vote
from lorikeet.kernels.autotune_vote import all_votes

RANK = Path(__file__).parents[1] / "helpers" / "vote_rank.py"
DENSE = {"architecture": "Qwen3ForCausalLM", "captured": True}


def vote(*votes: dict[str, Any] | str) -> list[str]:
    """What each of two ranks came to, in one line."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = str(sock.getsockname()[1])
    ranks = [
        subprocess.Popen(
            [sys.executable, str(RANK), str(rank), port, said if isinstance(said, str) else json.dumps(said)],
            stdout=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        for rank, said in enumerate(votes)
    ]  # fmt: skip
    try:
        return [rank.communicate(timeout=60)[0].strip() for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()


def test_two_ranks_that_agree() -> None:
    assert vote(DENSE, DENSE) == ["skipped nothing_to_tune"] * 2


def test_one_that_disagrees_changes_both() -> None:
    assert vote(DENSE, DENSE | {"seen": ["fp8_gemm"]}) == ["tuned disagreement"] * 2


def test_one_that_dies_ends_the_wait_of_the_other() -> None:
    begin = time.monotonic()
    assert vote(DENSE, "die") == [
        "rank 0: another rank ended before it voted on FlashInfer's autotune pass; "
        "its own error comes first in the log",
        "",
    ]
    assert time.monotonic() - begin < 29  # before gloo's own limit, which is 30 s there


def test_one_rank_asks_nobody() -> None:
    alone = Vote(architecture="Qwen3ForCausalLM")
    assert all_votes(alone, group=None, world_size=1) == [alone]
