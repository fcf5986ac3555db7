"""The list of operators that reach FlashInfer's autotuner: read right, and up to date."""

from importlib.metadata import version
from pathlib import Path

import pytest

from lorikeet.kernels import flashinfer_scan
from lorikeet.kernels.flashinfer_scan import as_json, committed, scan, scan_installed

SOURCE = """
from flashinfer.autotuner import AutoTuner

KEPT_CUSTOM_OP = "kept::op"


def plain():
    AutoTuner.get().choose_one("plain_gemm", [], None, [])


def keyword(runner):
    self.tuner.choose_one(custom_op=f"moe_{runner.key}", runners=[])


def constant():
    tuner.search_cache(KEPT_CUSTOM_OP, [], (), None)


def assigned(fp4):
    name = "wide" if fp4 else "never"
    name = "one_gemm"
    if fp4:
        name = f"two_{fp4}_gemm"
    tuner.rank_tactics(name, [], None, [])


def passed(op_name, kind):
    return tuner.choose_one(f"{op_name}_{kind}", [], None, [])


def callers():
    passed("left", 1)
    passed(kind=2, op_name="right")


def unknown(op_name):
    tuner.choose_one(op_name, [], None, [])


def other():
    tuner.choose_two("not this")
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    (tmp_path / "gemm").mkdir()
    (tmp_path / "gemm" / "ops.py").write_text(SOURCE)
    (tmp_path / "mode.py").write_text("def f(tuner):\n    return tuner.is_tuning_mode\n")
    (tmp_path / "autotuner").mkdir()
    (tmp_path / "autotuner" / "own.py").write_text('tuner.choose_one("its own", [])\n')
    return tmp_path


def test_names_of_every_form(package: Path) -> None:
    """A call whose name depends on more than one thing has every combination, also those that never occur."""
    scanned = scan(package, "1.0")
    assert scanned.operators == {
        "*": ("gemm/ops.py:unknown",),
        "kept::op": ("gemm/ops.py:constant",),
        "left_1": ("gemm/ops.py:passed",),
        "left_2": ("gemm/ops.py:passed",),
        "moe_*": ("gemm/ops.py:keyword",),
        "never": ("gemm/ops.py:assigned",),
        "one_gemm": ("gemm/ops.py:assigned",),
        "plain_gemm": ("gemm/ops.py:plain",),
        "right_1": ("gemm/ops.py:passed",),
        "right_2": ("gemm/ops.py:passed",),
        "two_*_gemm": ("gemm/ops.py:assigned",),
        "wide": ("gemm/ops.py:assigned",),
    }
    assert scanned.mode_readers == ("mode.py",)


def test_the_committed_list_is_the_installed_flashinfers() -> None:
    assert as_json(scan_installed()) == as_json(committed()), (
        "FlashInfer has changed: run `python -m lorikeet.kernels.flashinfer_scan --write`, then give every "
        "new operator a family in kernels/registry.py"
    )


def test_the_gpu_set_has_the_version_of_the_list() -> None:
    lock = Path(__file__).parents[2] / "requirements" / "gpu.txt"
    assert f"flashinfer-python=={committed().version} " in lock.read_text()
    assert version("flashinfer-python") == committed().version


def test_writes_the_list_where_it_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys) -> None:
    monkeypatch.setattr(flashinfer_scan, "__file__", str(tmp_path / "flashinfer_scan.py"))
    flashinfer_scan.main(["--write"])
    assert (tmp_path / flashinfer_scan.LIST).read_text() == capsys.readouterr().out == as_json(committed())
