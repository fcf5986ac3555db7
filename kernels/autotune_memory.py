"""What earlier starts of the same configuration met: a small file beside vLLM's autotune measurements.

The folder is vLLM's own, named by FlashInfer's version, the GPU's architecture and the configuration's hash,
so that a change of any begins anew. One file a rank: {"schema", "flashinfer", "needs_autotune": [operators],
"clean": whether a start captured all its graphs and met no tunable operator}.
"""

import json
import logging
import os
from dataclasses import asdict, dataclass
from pathlib import Path

SCHEMA = 1
_logger = logging.getLogger("vllm.lorikeet")


@dataclass(frozen=True)
class Memory:
    flashinfer: str
    needs_autotune: tuple[str, ...] = ()
    clean: bool = False
    damaged: bool = False  # it exists and can't be read: what it said must be taken for a mark

    @property
    def mark(self) -> str:
        """The reason to run the pass whatever this start sees; empty if there is none."""
        return "mark_damaged" if self.damaged else "marked" if self.needs_autotune else ""


def memory_file(folder: Path, rank: int) -> Path:
    return folder / f"lorikeet_rank{rank}.json"


def recall(path: Path | None, flashinfer: str) -> Memory:
    """Read the file. Another version's says nothing; one that can't be read counts as a mark."""
    if path is None:
        return Memory(flashinfer)
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["schema"] != SCHEMA or data["flashinfer"] != flashinfer:
            return Memory(flashinfer)
        operators = data["needs_autotune"]
        if not isinstance(operators, list) or not all(isinstance(name, str) for name in operators):
            raise TypeError(f"needs_autotune is {operators!r}")
        return Memory(flashinfer, tuple(operators), data["clean"] is True)
    except FileNotFoundError:
        return Memory(flashinfer)
    except (OSError, ValueError, KeyError, TypeError) as exc:
        _logger.warning("%s can't be read (%s): FlashInfer is tuned in this start", path, exc)
        return Memory(flashinfer, damaged=True)


def remember(path: Path, memory: Memory) -> bool:
    """Write the file in one step; False, with a warning, where it can't be written."""
    data = asdict(memory) | {"schema": SCHEMA}
    del data["damaged"]
    scratch = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        scratch.write_text(json.dumps(data) + "\n", encoding="utf-8")
        scratch.replace(path)
    except OSError as exc:
        _logger.warning("%s can't be written (%s): the next start won't know what this one met", path, exc)
        return False
    return True
