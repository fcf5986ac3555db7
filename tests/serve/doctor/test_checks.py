"""What the doctor says of mocked machines, against golden files.

.venv/bin/python tests/serve/doctor/test_checks.py     writes the golden files anew
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lorikeet.kernels.flashinfer_scan import committed
from lorikeet.kernels.seams import Seam
from lorikeet.serve.caches import start_failed
from lorikeet.serve.doctor.checks import (
    check_autotune,
    check_cache_folder,
    check_gpus,
    check_kernels,
    check_run_folder,
    check_seams_of_vllm,
    check_versions,
)
from lorikeet.serve.doctor.findings import Finding, as_data, as_text, exit_code
from lorikeet.serve.doctor.machine import Gpu, Machine

GOLDEN = Path(__file__).with_name("golden")
GIB = 1024**3
VERSIONS = {
    "lorikeet": "0.1.0",
    "vllm": "0.32.0",
    "torch": "2.11.0",
    "triton": "3.6.0",
    "flashinfer": committed().version,
    "transformers": "5.19.0",
}
GPUS = {
    "h100-sxm": Gpu("NVIDIA H100 80GB HBM3", (9, 0), 79 * GIB, 232_448),
    "h100-pcie": Gpu("NVIDIA H100 PCIe", (9, 0), 79 * GIB, 232_448),
    "h200": Gpu("NVIDIA H200", (9, 0), 139 * GIB, 232_448),
    "l4": Gpu("NVIDIA L4", (8, 9), 22 * GIB, 101_376),
    "h100-mig": Gpu("NVIDIA H100 80GB HBM3 MIG 1g.10gb", (9, 0), 9 * GIB, 232_448),
    "none": None,
}
FITS = [Seam("vllm.a:B.c", True, "()", "()"), Seam("vllm.a:B.d", True, "()", "()")]
CHANGED = [FITS[0], Seam("vllm.a:B.d", False, "(self, more)", "(self)")]


def machine(name: str) -> Machine:
    gpu = GPUS[name]
    return Machine((gpu,), "580.159.04", VERSIONS) if gpu else Machine(versions=VERSIONS)


def examined(name: str) -> list[Finding]:
    this = machine(name)
    return [
        check_gpus(this),
        check_versions(this),
        check_seams_of_vllm(FITS),
        check_kernels(this, FITS, "auto", batch_invariant=False),
        check_autotune(this, "auto"),
    ]


@pytest.mark.parametrize("name", GPUS)
def test_text_and_data_of_a_machine(name: str) -> None:
    findings = examined(name)
    assert as_text(findings) == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")
    assert json.loads(json.dumps(as_data(findings))) == json.loads((GOLDEN / f"{name}.json").read_text())
    assert exit_code(findings) == 0


def test_two_equal_gpus_are_one_line_and_different_ones_are_named() -> None:
    h200, l4 = GPUS["h200"], GPUS["l4"]
    assert check_gpus(Machine((h200, h200))).text.startswith("2 × NVIDIA H200, compute")
    mixed = Machine((h200, l4), versions=VERSIONS)
    assert "NVIDIA L4" in check_gpus(mixed).text
    assert check_autotune(mixed, "auto").details["reason"] == "capability"


@pytest.mark.parametrize("missing", ["vllm", "torch"])
def test_without_an_engine_a_start_would_fail(missing: str) -> None:
    finding = check_versions(Machine(versions=VERSIONS | {missing: None}))
    assert finding.verdict == "fails"
    assert f"{missing} is not installed" in finding.text


def test_an_untested_vllm_is_noted() -> None:
    finding = check_versions(Machine(versions=VERSIONS | {"vllm": "0.33.0"}))
    assert (finding.verdict, exit_code([finding])) == ("note", 0)
    assert "tested with vLLM 0.32.0" in finding.text


def test_a_changed_seam_is_noted_and_fails_where_our_kernels_were_asked_for() -> None:
    assert "B.d is '(self, more)' instead of '(self)'" in check_seams_of_vllm(CHANGED).text
    assert check_kernels(machine("h200"), CHANGED, "auto", False).verdict == "note"
    asked = check_kernels(machine("h200"), CHANGED, "on", False)
    assert asked.verdict == "fails"
    assert "LORIKEET_KERNELS=on" in asked.text


def test_kernels_that_were_asked_for_fail_without_a_gpu() -> None:
    assert exit_code([check_kernels(machine("none"), FITS, "on", False)]) == 1
    assert check_kernels(machine("none"), FITS, "off", False).verdict == "ok"


def test_batch_invariance_leaves_the_kernels_to_vllm() -> None:
    finding = check_kernels(machine("h200"), FITS, "auto", True)
    assert finding.details == {"implementation": "vllm", "reason": "batch_invariant"}


@pytest.mark.parametrize(
    ("version", "mode", "reason"),
    [(committed().version, "auto", None), (committed().version, "vllm", "left_to_vllm"),
     ("0.8.0", "auto", "flashinfer_version"), (None, "auto", "flashinfer_missing")],
)  # fmt: skip
def test_what_is_known_of_the_autotune_pass(version: str | None, mode: str, reason: str | None) -> None:
    this = replace(machine("h200"), versions=VERSIONS | {"flashinfer": version})
    assert check_autotune(this, mode).details["reason"] == reason


def test_caches_empty_filled_damaged_and_suspected(tmp_path: Path) -> None:
    assert check_cache_folder(tmp_path, True).verdict == "note"
    kernel = tmp_path / "triton/AAA/kernel.json"
    kernel.parent.mkdir(parents=True)
    kernel.write_text("{}")
    assert check_cache_folder(tmp_path, True) == Finding(
        "caches", "ok", f"{tmp_path} holds triton", {"folder": str(tmp_path), "filled": ["triton"]}
    )
    kernel.write_text("{")
    assert check_cache_folder(tmp_path, True).details["damaged"] == ["triton/AAA"]
    assert kernel.exists()  # the doctor changes nothing
    start_failed(tmp_path)
    start_failed(tmp_path)
    assert "puts the caches aside" in check_cache_folder(tmp_path, True).text


def test_caches_that_cannot_be_written_fail(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    finding = check_cache_folder(tmp_path / "file/cache", True)
    assert finding.verdict == "fails"
    assert "LORIKEET_CACHE_DIR" in finding.text
    assert check_cache_folder(tmp_path / "file/cache", False).verdict == "note"


def test_a_run_folder_that_cannot_be_written_fails(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert check_run_folder(tmp_path / "file/run").verdict == "fails"
    assert check_run_folder(tmp_path).verdict == "ok"


if __name__ == "__main__":
    for name in GPUS:
        (GOLDEN / f"{name}.txt").write_text(as_text(examined(name)), encoding="utf-8")
        (GOLDEN / f"{name}.json").write_text(json.dumps(as_data(examined(name)), indent=1) + "\n")
