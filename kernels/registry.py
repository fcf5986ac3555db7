"""Every kernel family that Lorikeet or vLLM may use: its operators, when it is used, whether it is tuned.

Tuned means FlashInfer's autotuner: which of an operator's variants runs is measured when the server starts,
and an operator that was not tuned runs a guess. `flashinfer_scan.py` lists those operators from FlashInfer's
own sources; a test fails when the installed FlashInfer has one that no family here has.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

from lorikeet.kernels.flashinfer_scan import committed
from lorikeet.kernels.model_facts import ModelFacts

UNKNOWN = "unknown"  # the label of an operator that no family has


@dataclass(frozen=True)
class Family:
    name: str
    source: Literal["lorikeet", "vllm", "flashinfer"]
    operators: tuple[str, ...]  # names, with `*` for what is not fixed
    in_use: Callable[[ModelFacts], bool]
    tuned: bool = False
    visible: bool = True  # whether every use calls the autotuner; else the recorder can't see it
    modes: tuple[str, ...] = ()  # its files that ask whether tuning is on


def _linear(*words: str, backends: tuple[str, ...] = ()) -> Callable[[ModelFacts], bool]:
    """Linear layers with such a kernel, or asked to have one."""
    return lambda facts: facts.holds(*words) or facts.linear_backend in backends


def _experts(*words: str) -> Callable[[ModelFacts], bool]:
    """Experts with such a kernel, or asked to have one."""
    return lambda facts: (
        "moe" in facts.special
        and (facts.holds(*words) or any(word.lower() in facts.moe_backend for word in words))
    )


def _special(*names: str) -> Callable[[ModelFacts], bool]:
    return lambda facts: any(name in facts.special for name in names)


def _never(_: ModelFacts) -> bool:
    return False


_BF16_BACKENDS = ("flashinfer_cutedsl",)
_CUTE_EXPERTS = ("CuteDslFusedMoE::*", "CuteDslMoEWrapper::*")

FAMILIES: tuple[Family, ...] = (
    Family("lora_linear", "lorikeet", ("lorikeet::lora_linear",), lambda f: f.holds("LorikeetPunicaWrapper")),
    Family("lora_stock", "vllm", ("vllm::lora_shrink", "vllm::lora_expand"),  # of ours: logits, embeddings
           lambda f: f.holds("LorikeetPunicaWrapper", "PunicaWrapperGPU")),
    Family("lora_experts", "vllm", ("vllm::fused_moe_lora",), lambda f: f.lora and "moe" in f.special),
    Family("bf16_linear", "flashinfer", ("bf16_gemm", "*_tgv_gemm"),
           _linear(backends=_BF16_BACKENDS), tuned=True),
    Family("fp8_linear", "flashinfer", ("fp8_gemm", "mm_fp8_cutedsl_low_latency", "trtllm_low_latency_gemm"),
           _linear("FlashInferFP8ScaledMM"), tuned=True),
    Family("fp4_linear", "flashinfer", ("fp4_gemm",),
           _linear("FlashInferCutlassNvFp4", "FlashInferTrtllmNvFp4", "FlashInferCudnnNvFp4",
                   "FlashInferB12xNvFp4", "FlashInferCuteDslNvFp4Linear", "FlashInferMxFp4"), tuned=True),
    Family("mxfp8_linear", "flashinfer", ("mxfp8_gemm",),
           _linear("FlashInferCutlassMxfp8", "FlashInferCutedslMxfp8", "FlashInferTrtllmMxfp8"), tuned=True),
    Family("bf16_fp4_linear", "flashinfer", ("bf16_fp4_*gemm",),
           _linear("FlashInferCuteDslNvFp4W4A16"), tuned=True),
    Family("svdquant_linear", "flashinfer", ("nvfp4_svdquant_gemm*",), _never, tuned=True),
    Family("cutlass_experts", "flashinfer", ("trtllm::fused_moe::gemm?",),
           _experts("FlashInferExperts", "FLASHINFER_CUTLASS"), tuned=True),
    Family("trtllm_experts", "flashinfer", ("flashinfer::trtllm_*_moe", "trtllm_moe_da"),
           _experts("Trtllm"), tuned=True, visible=False, modes=("fused_moe/da_runtime.py",)),
    Family("cute_experts", "flashinfer", _CUTE_EXPERTS, _experts("CuteDSL"), tuned=True,
           modes=("fused_moe/cute_dsl/fused_moe.py",)),
    Family("layer_experts", "flashinfer", ("moe_*",), _experts("FlashInferMoeEp"), tuned=True),
    Family("prims_experts", "flashinfer", ("flashinfer::prims_ts_*_moe",), _never, tuned=True),
    Family("sm120_experts", "flashinfer", ("cute_sm120_*_moe",), _experts("B12x"), tuned=True),
    Family("mla_decode", "flashinfer", ("trtllm_batch_decode_mla",), _special("mla"), tuned=True),
    Family("sparse_mla", "flashinfer", ("sparse_mla_sm120*",), _special("mla"), tuned=True, visible=False,
           modes=("mla/_sparse_mla_nvfp4_sm120_plan.py", "mla/_sparse_mla_sm120_plan.py")),
    Family("sparse_proxy", "flashinfer", ("msa_proxy_score*",), lambda facts: facts.holds("MSA"), tuned=True,
           visible=False, modes=("msa_ops/proxy_score.py",)),
    Family("state_space", "flashinfer", ("checkpointing_ssu",), _special("hybrid"), tuned=True),
    Family("pcie_all_reduce", "flashinfer", ("flashinfer::pcie_ipc_all_reduce",), _special("pcie_ipc"),
           tuned=True, modes=("comm/pcie_ipc_ar.py",)),
)  # fmt: skip


def family_of(operator: str) -> Family | None:
    """The family that has the operator, the one with the longest pattern if several have."""
    matching = [
        (len(pattern), family)
        for family in FAMILIES
        for pattern in family.operators
        if fnmatchcase(operator, pattern)
    ]
    return max(matching, key=lambda found: found[0])[1] if matching else None


def label(operator: str) -> str:
    """The operator's name where it is known, else `unknown`: labels must come from a closed set."""
    return operator if family_of(operator) else UNKNOWN


def tuned_families(facts: ModelFacts) -> list[Family]:
    """The families in use that need FlashInfer's autotuner."""
    return [family for family in FAMILIES if family.tuned and family.in_use(facts)]


def unknown_operators(operators: Iterable[str]) -> list[str]:
    """Those of `operators`, names or patterns, that no tuned family has."""
    known = [(family, pattern) for family in FAMILIES if family.tuned for pattern in family.operators]
    return [name for name in operators if not any(fnmatchcase(name, pattern) for _, pattern in known)]


def unknown_mode_readers(files: Iterable[str]) -> list[str]:
    """Those of FlashInfer's files that ask whether tuning is on and belong to no family."""
    known = {file for family in FAMILIES for file in family.modes}
    return [file for file in files if file not in known]


def report(in_use: Iterable[str] | None = None) -> dict[str, Any]:
    """The registry as plain data; `in_use` names the families that the workers use, None: not known yet."""
    used = None if in_use is None else set(in_use)
    return {"flashinfer": committed().version, "families": [_row(family, used) for family in FAMILIES]}


def _row(family: Family, used: set[str] | None) -> Mapping[str, Any]:
    return {
        "name": family.name,
        "source": family.source,
        "operators": list(family.operators),
        "tuned": family.tuned,
        "visible": family.visible,
        "in_use": None if used is None else family.name in used,
    }


def names_in_use(facts: ModelFacts) -> Iterator[str]:
    return (family.name for family in FAMILIES if family.in_use(facts))
