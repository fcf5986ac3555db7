"""Kernel tests run in Triton's interpreter where there is no GPU.

Triton decides when it is imported, so this must come before anything imports it. The variable is
taken back at once: processes started later by other tests must not inherit it.
"""

import os
import sys

import pytest
import torch

HAS_GPU = torch.cuda.is_available()
if not HAS_GPU:
    assert "triton" not in sys.modules, (
        "triton was imported before tests/kernels could choose its interpreter"
    )
    os.environ["TRITON_INTERPRET"] = "1"
    import triton.experimental.gluon  # noqa: F401  # its import looks at the variable, once needed
import lorikeet.kernels.lora_linear  # noqa: F401

os.environ.pop("TRITON_INTERPRET", None)


@pytest.fixture(scope="session")
def device() -> str:
    return "cuda" if HAS_GPU else "cpu"


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
