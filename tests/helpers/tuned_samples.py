"""Measured block sizes for tests: a shape, pairs that fit it, and folders that hold them."""

from pathlib import Path

from lorikeet.kernels.config import Device, ExpandConfig, ShrinkConfig
from lorikeet.kernels.shape import LayerShape
from lorikeet.kernels.tuned_file import Measured, Pair, gpu_folder, write_folder

H200 = Device(capability=(9, 0), shared_bytes=232_448, name="NVIDIA H200")
QKV = LayerShape(4096, (4096, 1024, 1024), 16, 8)
SMALL = LayerShape(256, (128, 64), 16, 3, "float16")
HEADER = {"driver": "580.1", "torch": "2.11.0", "triton": "3.6.0", "measured": "2026-12-01"}


def pair(chunk_k: int = 512, block_n: int = 128) -> Pair:
    return ShrinkConfig("swap", 16, 16, chunk_k, 64), ExpandConfig("swap", 16, block_n, 16, num_stages=1)


def write(folder: Path, gpu: str, rows: dict[tuple[LayerShape, int], Pair], capability: str = "9.0") -> Path:
    path = folder / gpu_folder(gpu)
    measured = {key: Measured(value, 3.0, 4.0) for key, value in rows.items()}
    write_folder(path, {"gpu": gpu, "capability": capability, **HEADER}, measured)
    return path
