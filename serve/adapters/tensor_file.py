"""Opens `adapter_model.safetensors`: names, shapes and types from its header, values one tensor at a time."""

import math
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lorikeet.serve.adapters.report import shown

TENSOR_FILE = "adapter_model.safetensors"
PICKLES = ("adapter_model.bin", "adapter_model.pt", "adapter_model.pth", "pytorch_model.bin")
MAX_HEADER_BYTES = 16 * 1024**2  # about 100,000 tensors


class TensorFileError(Exception):
    """The file is not what safetensors writes; the text says how."""


@dataclass(frozen=True)
class TensorInfo:
    """One tensor as its header describes it."""

    name: str
    shape: tuple[int, ...]
    dtype: str  # safetensors' name: F32, BF16, I8, …


class TensorFile:
    """An open file; nothing is read but the header and what `extremes` asks for."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def tensors(self) -> Iterator[TensorInfo]:
        for name in self._file.keys():  # noqa: SIM118 - it's no dict
            part = self._file.get_slice(name)
            yield TensorInfo(name, tuple(part.get_shape()), part.get_dtype())

    def extremes(self, name: str) -> tuple[float, float]:
        """Smallest and largest value of a floating tensor that isn't empty; NaN where there is one."""
        low, high = self._file.get_tensor(name).aminmax()
        if math.isnan(float(low)) or math.isnan(float(high)):
            return math.nan, math.nan
        return float(low), float(high)


@contextmanager
def open_tensors(path: Path) -> Iterator[TensorFile]:
    """Open the file at `path`.

    Raises:
        TensorFileError: it is absent, cut short, or has a header that is broken or too large.
    """
    from safetensors import SafetensorError, safe_open

    _check_header_size(path)
    try:
        file = safe_open(path, framework="pt")
        with file:
            yield TensorFile(file)
    except (SafetensorError, OSError) as exc:
        raise TensorFileError(f"{TENSOR_FILE} can't be read ({shown(exc)})") from exc


def _check_header_size(path: Path) -> None:
    """The first 8 bytes say how long the header is: checked before anything of that size is read."""
    try:
        with path.open("rb") as file:
            start = file.read(8)
        num_bytes = path.stat().st_size
    except FileNotFoundError as exc:
        raise TensorFileError(f"{TENSOR_FILE} is missing") from exc
    except OSError as exc:
        raise TensorFileError(f"{TENSOR_FILE} can't be read ({exc.strerror})") from exc
    if len(start) < 8:
        raise TensorFileError(f"{TENSOR_FILE} has {len(start)} bytes, too few for a header")
    (header_bytes,) = struct.unpack("<Q", start)
    if header_bytes > min(MAX_HEADER_BYTES, num_bytes - 8):
        raise TensorFileError(
            f"{TENSOR_FILE} says that its header has {header_bytes} bytes; "
            f"at most {MAX_HEADER_BYTES} are read, and the file has {num_bytes}"
        )
