"""What the plugin does in a process, by its environment."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import vllm.platforms
from vllm.lora.punica_wrapper import punica_selector

from lorikeet.kernels import platform_hook, vllm_plugin
from lorikeet.kernels.punica_wrapper import LorikeetPunicaWrapper


@pytest.fixture(autouse=True)
def platform(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The real platform with a class of its own, so that nothing of a test's hook is left."""
    real = vllm.platforms.current_platform
    platform = type("Platform", (type(real),), {})()
    monkeypatch.setattr(vllm.platforms, "_current_platform", platform)
    monkeypatch.setattr(punica_selector, "current_platform", platform)
    for name in ("LORIKEET_RUN_DIR", "LORIKEET_KERNELS", "LORIKEET_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    return platform


def is_hooked(platform: Any) -> bool:
    return "get_punica_wrapper" in vars(type(platform))


def test_plain_vllm_is_left_alone(platform: Any) -> None:
    vllm_plugin.install()
    assert not is_hooked(platform)


@pytest.mark.parametrize("variable", ["LORIKEET_RUN_DIR", "LORIKEET_KERNELS"])
def test_installs_where_asked(
    variable: str, platform: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(variable, str(tmp_path) if variable == "LORIKEET_RUN_DIR" else "auto")
    monkeypatch.setenv("LORIKEET_DEBUG", "1")  # leave this process's exception hook alone
    vllm_plugin.install()
    vllm_plugin.install()
    assert is_hooked(platform)


def test_vllm_builds_our_wrapper_on_an_nvidia_gpu(platform: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform_hook, "cuda_capability", lambda _: (9, 0))
    monkeypatch.setenv("LORIKEET_KERNELS", "on")
    vllm_plugin.install()
    config = SimpleNamespace(max_loras=2, specialize_active_lora=False)
    from vllm.lora.ops.triton_ops.lora_kernel_metadata import LoRAKernelMeta
    from vllm.lora.punica_wrapper import punica_gpu

    monkeypatch.setattr(punica_gpu, "LoRAKernelMeta", LoRAKernelMeta, raising=False)
    wrapper = punica_selector.get_punica_wrapper(64, max_batches=8, device="cpu", lora_config=config)
    assert type(wrapper) is LorikeetPunicaWrapper


def test_without_one_vllm_keeps_its_own(platform: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if platform.is_cuda():
        pytest.skip("has an NVIDIA GPU")
    monkeypatch.setenv("LORIKEET_KERNELS", "auto")
    stock = platform.get_punica_wrapper()
    vllm_plugin.install()
    assert platform.get_punica_wrapper() == platform_hook.CORRECTED.get(stock, stock)


def test_an_unknown_mode_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LORIKEET_KERNELS", "yes")
    with pytest.raises(ValueError, match="LORIKEET_KERNELS=yes: must be one of auto, on, off"):
        vllm_plugin.install()
