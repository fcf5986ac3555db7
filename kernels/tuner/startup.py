"""Measure what a starting server has no block sizes for, in a process beside its worker, for some seconds.

    python -m lorikeet.kernels.tuner.startup < {"out", "seconds", "max_tokens", "shapes"} as JSON

vLLM's workers may not have children of Python's multiprocessing, and the tuner needs some; a plain process
may. It uses the worker's GPU before the worker fills its memory with the cache.
"""

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lorikeet.kernels.config import TOKEN_BUCKETS, token_bucket
from lorikeet.kernels.shape import LayerShape
from lorikeet.kernels.tuner.cells import DECODE_BUCKETS, Cell

EXTRA_S = 120.0  # for its imports before, and the cell that is being measured when the time is over
WRITING_S = 20.0


def tune_at_startup(shapes: Sequence[LayerShape], max_tokens: int, out: Path, seconds: float) -> str:
    """Measure these shapes for `seconds` into `out`; says in one line what happened, and raises nothing."""
    given = {
        "out": str(out),
        "seconds": seconds,
        "max_tokens": max_tokens,
        "shapes": list(map(asdict, shapes)),
    }
    command = [sys.executable, "-m", __name__]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        output, errors = process.communicate(json.dumps(given), timeout=seconds + EXTRA_S)
    except subprocess.TimeoutExpired:
        process.terminate()  # it writes what it has
        try:
            output, errors = process.communicate(timeout=WRITING_S)
        except subprocess.TimeoutExpired:
            process.kill()
            output, errors = process.communicate()
    if process.returncode == 0 and output.strip():
        return output.strip().splitlines()[0]
    last = (errors.strip().splitlines() or [f"exit code {process.returncode}"])[-1]
    return f"nothing was measured: {last}"


def startup_cells(shapes: Sequence[LayerShape], max_tokens: int) -> list[Cell]:
    """Decode of all shapes, then prefill, up to the most tokens that a step can have."""
    buckets = [bucket for bucket in TOKEN_BUCKETS if bucket <= token_bucket(max_tokens)]
    decode = [Cell(shape, bucket) for shape in shapes for bucket in buckets if bucket in DECODE_BUCKETS]
    return [
        *decode,
        *(Cell(shape, bucket) for shape in shapes for bucket in buckets if bucket not in DECODE_BUCKETS),
    ]


def main() -> None:
    from lorikeet.kernels.tuner.run import LORA, run

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    given: dict[str, Any] = json.load(sys.stdin)
    shapes = [LayerShape(**{**shape, "n": tuple(shape["n"])}) for shape in given["shapes"]]
    cells = startup_cells(shapes, given["max_tokens"])
    report = run(LORA, cells, Path(given["out"]), given["seconds"])
    print(f"{len(report.outcomes)} of {len(cells)} cells measured, into {report.folder}")


if __name__ == "__main__":
    main()
