"""What the measuring process is made of, on the GPU it finds: for our kernels and for vLLM's."""

import datetime
import subprocess
from dataclasses import asdict
from typing import Any

from lorikeet.kernels.config import Device
from lorikeet.kernels.tuned_file import KERNEL_VERSION
from lorikeet.kernels.tuner.measurer import Tools


def lora_tools() -> Tools:
    """Our kernels."""
    from lorikeet.kernels.tuner.bench import GpuBench, GraphCapture, LoraKernels
    from lorikeet.kernels.tuner.space import LoraSpace

    device = gpu()
    return Tools(LoraSpace(device), GpuBench(LoraKernels(), GraphCapture()), header(device, "lorikeet"))


def stock_tools() -> Tools:
    """vLLM's kernels."""
    from lorikeet.kernels.tuner.bench import GpuBench, GraphCapture
    from lorikeet.kernels.tuner.stock_kernels import StockKernels
    from lorikeet.kernels.tuner.stock_space import StockSpace

    device = gpu()
    return Tools(StockSpace(device), GpuBench(StockKernels(), GraphCapture()), header(device, "vllm"))


def gpu() -> Device:
    """This process's GPU.

    Raises:
        RuntimeError: there is none.
    """
    import torch

    from lorikeet.kernels.lora_linear import device_of

    if not torch.cuda.is_available():
        raise RuntimeError("no NVIDIA GPU here: block sizes are measured on the GPU they are for")
    return device_of(torch.device("cuda", torch.cuda.current_device()))


def header(device: Device, implementation: str) -> dict[str, Any]:
    """The head of files, and what results may be taken over from."""
    import torch
    import triton

    return {
        "implementation": implementation,
        "gpu": device.name,
        "capability": "{}.{}".format(*device.capability),
        "driver": driver_version(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "kernel": KERNEL_VERSION,
        "measured": datetime.date.today().isoformat(),
        "device": asdict(device),
    }


def driver_version() -> str:
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"]
    try:
        return subprocess.run(query, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
