"""Every variant compiles for GPUs that are not here, without spilling registers."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

CAPABILITIES = ("80", "89", "90", "100")
# What one program can have, of registers a thread and of shared memory.
MAX_REGISTERS = 255
MAX_SHARED_BYTES = {"80": 166_912, "89": 101_376, "90": 232_448, "100": 232_448}


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """Two capabilities at a time: Triton compiles on one core."""
    cache = tmp_path_factory.mktemp("triton")
    found = {}
    for pair in (CAPABILITIES[:2], CAPABILITIES[2:]):
        running = {capability: start(capability, cache) for capability in pair}
        for capability, process in running.items():
            out, errors = process.communicate(timeout=300)
            assert process.returncode == 0, errors[-2000:]
            found[capability] = [json.loads(line) for line in out.splitlines()]
    return found


def start(capability: str, cache: Path) -> "subprocess.Popen[str]":
    script = Path(__file__).with_name("compile_ahead.py")
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", script, capability],
        env={**os.environ, "TRITON_CACHE_DIR": str(cache), "PYTHONSAFEPATH": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_fits_the_gpu(capability: str, reports: dict[str, list[dict[str, Any]]]) -> None:
    variants = reports[capability]
    print(f"sm_{capability}", *variants, sep="\n")
    assert {variant["kernel"] for variant in variants} == {
        "_lora_shrink_gemv_kernel",
        "_lora_shrink_swap_kernel",
        "_lora_shrink_tiled_kernel",
        "_lora_expand_swap_kernel",
        "_lora_expand_tiled_kernel",
    }
    for variant in variants:
        assert variant["stack_bytes"] == 0, variant
        assert variant["registers"] <= MAX_REGISTERS, variant
        assert variant["shared_bytes"] <= MAX_SHARED_BYTES[capability], variant


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_aligned_shapes_load_16_bytes_at_a_time(
    capability: str, reports: dict[str, list[dict[str, Any]]]
) -> None:
    """The largest single gain over stock vLLM; the odd shape has the variants without it."""
    aligned = [variant for variant in reports[capability] if variant["aligned"]]
    assert len(aligned) > len(reports[capability]) / 2
    for variant in aligned:
        assert variant["wide_loads"] > 0, variant
        assert variant["narrow_loads"] == 0, variant
