"""Kernel tests run in Triton's interpreter where there is no GPU.

Triton decides when it is imported, so this must come before anything imports it. The variable is
taken back at once: processes started later by other tests must not inherit it.
"""

import importlib.util
import os
import sys
import warnings

import pytest
import torch

HAS_GPU = torch.cuda.is_available()


def import_interpreted() -> None:
    assert "triton" not in sys.modules, (
        "triton was imported before tests/kernels could choose its interpreter"
    )
    os.environ["TRITON_INTERPRET"] = "1"
    importlib.import_module("triton.experimental.gluon")  # looks at the variable, once needed
    importlib.import_module("lorikeet.kernels.lora_linear")
    del os.environ["TRITON_INTERPRET"]


def import_vllm() -> None:
    """Its imports warn; ours must not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module("vllm.lora.punica_wrapper.punica_gpu")


if not HAS_GPU:
    import_interpreted()
if importlib.util.find_spec("vllm"):
    import_vllm()


@pytest.fixture(scope="session")
def device() -> str:
    return "cuda" if HAS_GPU else "cpu"


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
