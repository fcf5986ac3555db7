"""The kernel families: every operator of the installed FlashInfer has one, and each is in use when it is."""

import json

import pytest

from lorikeet.kernels.flashinfer_scan import scan_installed
from lorikeet.kernels.model_facts import ModelFacts
from lorikeet.kernels.registry import (
    FAMILIES,
    family_of,
    label,
    names_in_use,
    report,
    tuned_families,
    unknown_mode_readers,
    unknown_operators,
)

DENSE = ModelFacts(
    "LlamaForCausalLM", frozenset({"UnquantizedLinearMethod", "LorikeetPunicaWrapper"}), lora=True
)


def facts(*kernels: str, special: tuple[str, ...] = (), **backends: str) -> ModelFacts:
    return ModelFacts("SomeModel", frozenset(kernels), special=special, **backends)


def test_every_operator_of_the_installed_flashinfer_has_a_family() -> None:
    scanned = scan_installed()
    assert unknown_operators(scanned.operators) == []
    assert unknown_mode_readers(scanned.mode_readers) == []


def test_a_new_operator_is_noticed() -> None:
    assert unknown_operators(["bf16_gemm", "int2_gemm"]) == ["int2_gemm"]
    assert unknown_mode_readers(["mla/_sparse_mla_sm120_plan.py", "gemm/new.py"]) == ["gemm/new.py"]


def test_a_dense_bf16_model_needs_no_tuning() -> None:
    assert tuned_families(DENSE) == []
    assert list(names_in_use(DENSE)) == ["lora_linear", "lora_stock"]


def test_which_lora_kernels_are_in_use() -> None:
    assert list(names_in_use(facts("PunicaWrapperGPU"))) == ["lora_stock"]
    assert list(names_in_use(facts("PunicaWrapperCPU"))) == []


@pytest.mark.parametrize(
    ("model", "family"),
    [
        (facts("FlashInferFP8ScaledMMLinearKernel"), "fp8_linear"),
        (facts("FlashInferCutlassNvFp4LinearKernel"), "fp4_linear"),
        (facts("FlashInferTrtllmMxfp8LinearKernel"), "mxfp8_linear"),
        (facts("FlashInferCuteDslNvFp4W4A16LinearKernel"), "bf16_fp4_linear"),
        (facts(linear_backend="flashinfer_cutedsl"), "bf16_linear"),
        (facts("FlashInferExperts", special=("moe",)), "cutlass_experts"),
        (facts("UnquantizedFusedMoEMethod", "FLASHINFER_TRTLLM", special=("moe",)), "trtllm_experts"),
        (facts(special=("moe",), moe_backend="flashinfer_cutlass"), "cutlass_experts"),
        (facts("FlashInferCuteDSLExperts", special=("moe",)), "cute_experts"),
        (facts(special=("mla",)), "mla_decode"),
        (facts(special=("hybrid",)), "state_space"),
        (facts(special=("pcie_ipc",)), "pcie_all_reduce"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_families_that_are_tuned(model: ModelFacts, family: str) -> None:
    assert family in [found.name for found in tuned_families(model)]


@pytest.mark.parametrize(
    "kernel",
    ["MarlinNvFp4LinearKernel", "CutlassFP8ScaledMMLinearKernel", "FlashInferFp8BlockScaledMMKernel"],
)
def test_linear_kernels_that_are_not_tuned(kernel: str) -> None:
    assert tuned_families(facts(kernel)) == []


def test_experts_on_triton_are_not_tuned() -> None:
    assert tuned_families(facts("UnquantizedFusedMoEMethod", "TRITON", special=("moe",))) == []


def test_the_longest_pattern_names_the_family() -> None:
    assert family_of("flashinfer::trtllm_bf16_moe").name == "trtllm_experts"
    assert family_of("moe_cutile_sm90_gemm1").name == "layer_experts"
    assert family_of("nobody knows this") is None


def test_labels_come_from_a_closed_set() -> None:
    assert label("fp4_gemm") == "fp4_gemm"
    assert label("nobody knows this") == "unknown"


def test_names_are_unique_and_the_report_is_plain_data() -> None:
    names = [family.name for family in FAMILIES]
    assert len(set(names)) == len(names)
    rows = json.loads(json.dumps(report(["lora_linear"])))["families"]
    assert [row["name"] for row in rows if row["in_use"]] == ["lora_linear"]
    assert {row["in_use"] for row in report()["families"]} == {None}
