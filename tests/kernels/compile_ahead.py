"""Compile every kernel variant that some layers can reach, for a GPU that is not here.

    python tests/kernels/compile_ahead.py CAPABILITY      (80, 89, 90 or 100)

Prints one JSON line a variant: kernel, registers, stack and shared memory in bytes, and how many
16-byte global loads it has. The launchers run as they do on a GPU; only Triton's last step, the
launch itself, is left out.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction

from lorikeet.kernels import lora_linear
from lorikeet.kernels.config import TOKEN_BUCKETS, Device
from lorikeet.kernels.tile_table import TILE_SIZES

# (K, widths, rank): Llama-8B's qkv and down, odd sizes that no alignment hint fits, and a large rank.
LAYERS = (
    (4096, (4096, 1024, 1024), 16),
    (14336, (4096,), 64),
    (250, (66, 34), 8),
    (3072, (8192, 8192), 320),
)
NUM_SLOTS = 4
# Shared memory that one program can have, by capability.
DEVICES = {
    80: Device(capability=(8, 0), shared_bytes=166_912),
    89: Device(capability=(8, 9), shared_bytes=101_376),
    90: Device(capability=(9, 0), shared_bytes=232_448),
    100: Device(capability=(10, 0), shared_bytes=232_448),
}


class AbsentDriver:
    """Triton's driver for a GPU of the given capability that nothing can be launched on."""

    def __init__(self, capability: int) -> None:
        self.capability = capability

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.capability, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, _device: int) -> int:
        return 0


def compile_layers(capability: int, layers: Any = LAYERS) -> Iterator[dict[str, Any]]:
    triton.runtime.driver.set_active(AbsentDriver(capability))
    seen: set[str] = set()
    for k, widths, rank in layers:
        aligned = all(size % 16 == 0 for size in (k, *widths))
        for kernel in capture_launches(DEVICES[capability], k, widths, rank):
            if kernel.hash not in seen:
                seen.add(kernel.hash)
                yield {"kernel": kernel.name, "rank": rank, "aligned": aligned, **resources(kernel)}


def capture_launches(device: Device, k: int, widths: tuple[int, ...], rank: int) -> list[Any]:
    compiled = []
    run = JITFunction.run

    def compile_only(self: Any, *args: Any, **kwargs: Any) -> None:
        compiled.append(run(self, *args, **{**kwargs, "warmup": True}))

    JITFunction.run = compile_only
    try:
        launch_every_bucket(k, widths, rank, device)
    finally:
        JITFunction.run = run
    return compiled


def launch_every_bucket(k: int, widths: tuple[int, ...], rank: int, device: Device) -> None:
    lora_a = [torch.empty(NUM_SLOTS, 1, rank, k, dtype=torch.bfloat16) for _ in widths]
    lora_b = [torch.empty(NUM_SLOTS, 1, width, rank, dtype=torch.bfloat16) for width in widths]
    tables = [torch.empty(0, 3, dtype=torch.int32) for _ in TILE_SIZES]
    for num_tokens in TOKEN_BUCKETS:
        x = torch.empty(num_tokens, k, dtype=torch.bfloat16)
        y = torch.empty(num_tokens, sum(widths), dtype=torch.bfloat16)
        rows = torch.empty(num_tokens, dtype=torch.int32)
        lora_linear.lora_slices(y, x, lora_a, lora_b, tables, rows, True, device)


def resources(kernel: Any) -> dict[str, int]:
    tools = Path(triton.__file__).parent / "backends/nvidia/bin"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as cubin:
        cubin.write(kernel.asm["cubin"])
        cubin.flush()
        report = subprocess.run(
            [tools / "cuobjdump", "--dump-resource-usage", cubin.name],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    usage = SimpleNamespace(
        **{key: int(value) for key, value in re.findall(r"(REG|STACK|LOCAL):(\d+)", report)}
    )
    ptx = kernel.asm["ptx"]
    return {
        "registers": usage.REG,
        "stack_bytes": usage.STACK + usage.LOCAL,
        "shared_bytes": kernel.metadata.shared,
        "wide_loads": len(re.findall(r"ld\.global\S*\.v4\.b32|cp\.async\.cg", ptx)),
        "narrow_loads": len(re.findall(r"ld\.global\S*\.b16|ld\.global\S*\.u16", ptx)),
    }


if __name__ == "__main__":
    for variant in compile_layers(int(sys.argv[1])):
        print(json.dumps(variant), flush=True)
