"""Which wrapper vLLM is told to build, on platforms of every kind."""

import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lorikeet.kernels import platform_hook
from lorikeet.kernels.choice import OUR_WRAPPER, KernelsUnavailableError
from lorikeet.kernels.journal import Journal
from lorikeet.kernels.platform_hook import hook_platform
from lorikeet.kernels.seams import Seam

STOCK = "vllm.their.Wrapper"


def make_platform(cuda: bool, capability: tuple[int, int] | None) -> Any:
    """A platform whose class is its own, as hooking changes it."""

    class Platform:
        @classmethod
        def get_punica_wrapper(cls) -> str:
            return STOCK

        @classmethod
        def get_device_capability(cls) -> SimpleNamespace | None:
            return capability and SimpleNamespace(major=capability[0], minor=capability[1])

        def is_cuda(self) -> bool:
            return cuda

    return Platform()


def decisions(folder: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]
    return [
        line["detail"] for line in lines if (line["event"], line["phase"]) == ("decision", "lora_kernels")
    ]


@pytest.mark.parametrize(
    ("mode", "cuda", "capability", "wrapper", "reason"),
    [
        ("auto", True, (9, 0), OUR_WRAPPER, "chosen"),
        ("on", True, (8, 0), OUR_WRAPPER, "chosen"),
        ("off", True, (9, 0), STOCK, "off"),
        ("auto", True, (7, 5), STOCK, "capability"),
        ("auto", True, None, STOCK, "capability"),
        ("auto", False, None, STOCK, "capability"),
        ("auto", False, (9, 4), STOCK, "capability"),  # ROCm
    ],
)
def test_named_wrapper(
    mode: Any, cuda: bool, capability: tuple[int, int] | None, wrapper: str, reason: str, tmp_path: Path
) -> None:
    platform = make_platform(cuda, capability)
    hook_platform(platform, mode, Journal(tmp_path, "worker"))
    assert decisions(tmp_path) == []  # not before a model is loaded
    assert platform.get_punica_wrapper() == wrapper
    (decision,) = decisions(tmp_path)
    assert decision["reason"] == reason
    assert decision["implementation"] == ("lorikeet" if wrapper == OUR_WRAPPER else "vllm")
    assert all(decision["seams"].values())
    assert bool(decision["seams"]) == (wrapper == OUR_WRAPPER)


def test_hooking_twice_is_hooking_once(tmp_path: Path) -> None:
    platform = make_platform(True, (9, 0))
    for _ in range(3):
        hook_platform(platform, "auto", Journal(tmp_path, "worker"))
    assert platform.get_punica_wrapper() == OUR_WRAPPER
    assert len(decisions(tmp_path)) == 1


def test_batch_invariance_keeps_stock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_BATCH_INVARIANT", "1")
    platform = make_platform(True, (9, 0))
    hook_platform(platform, "auto", Journal(None, "worker"))
    assert platform.get_punica_wrapper() == STOCK


def test_on_is_an_error_where_ours_do_not_fit() -> None:
    platform = make_platform(False, None)
    hook_platform(platform, "on", Journal(None, "worker"))
    with pytest.raises(KernelsUnavailableError, match="no CUDA GPU"):
        platform.get_punica_wrapper()


def test_a_changed_vllm_is_one_error_line_and_stock(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    seams = [Seam("a", True, "()", "()"), Seam("b", False, "(self, z)", "(self)")]
    choose = platform_hook.choose
    monkeypatch.setattr(platform_hook, "choose", lambda *args: choose(*args, check=lambda: seams))
    monkeypatch.setattr(logging.getLogger("vllm"), "propagate", True)
    platform = make_platform(True, (9, 0))
    hook_platform(platform, "auto", Journal(tmp_path, "worker"))
    assert platform.get_punica_wrapper() == STOCK
    assert decisions(tmp_path)[0]["seams"] == {"a": True, "b": False}
    (record,) = [record for record in caplog.records if record.name == "vllm.lorikeet"]
    assert record.levelname == "ERROR"
    assert "b: got '(self, z)', expected '(self)'" in record.getMessage()
