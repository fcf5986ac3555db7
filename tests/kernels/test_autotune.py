"""One worker's start with the recorder on FlashInfer's real AutoTuner; vLLM's side is staged."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from lorikeet.kernels import autotune, autotune_vllm
from lorikeet.kernels.autotune import PASS, Autotune
from lorikeet.kernels.autotune_memory import Memory, memory_file, recall, remember
from lorikeet.kernels.choice_recorder import EXPECTED
from lorikeet.kernels.flashinfer_scan import committed
from lorikeet.kernels.journal import Journal
from lorikeet.kernels.model_facts import ModelFacts

flashinfer = pytest.importorskip("flashinfer")
from flashinfer.autotuner import AutoTuner, TunableRunner, TuningConfig, autotune as tuning  # noqa: E402, I001
from vllm.model_executor.warmup import kernel_warmup  # noqa: E402

DENSE = ModelFacts("SomeForCausalLM", frozenset({"LorikeetPunicaWrapper"}), lora=True)
FP8 = ModelFacts("SomeForCausalLM", frozenset({"FlashInferFP8ScaledMMLinearKernel"}))


class Runner(TunableRunner):
    def get_valid_tactics(self, inputs: list[torch.Tensor], profile: Any) -> list[int]:
        return [0, 1]

    def forward(self, inputs: list[torch.Tensor], tactic: Any = -1, do_preparation: bool = False, **_: Any):
        return inputs[0]


def choose(operator: str = "fp8_gemm", rows: int = 4) -> Any:
    return AutoTuner.get().choose_one(operator, [Runner()], TuningConfig(), [torch.zeros(rows, 4)])


class Worker:
    """What vLLM's worker does in a start, as far as this is concerned."""

    rank = 0

    def __init__(self, profile: Callable[[], Any], capture: Callable[[], Any]) -> None:
        self.vllm_config = SimpleNamespace(kernel_config=SimpleNamespace(enable_flashinfer_autotune=True))
        self.profile, self.capture = profile, capture
        self.passes = 0

    def start(self, autotune: Autotune, captures_first: bool = True) -> None:
        autotune.install()
        recorder = autotune.recorder
        with recorder.during("profile"):
            self.profile()
            if captures_first:
                with recorder.during("graph_profile"):
                    self.capture()
        autotune.decide()
        with autotune.applied():
            if self.vllm_config.kernel_config.enable_flashinfer_autotune:
                kernel_warmup.flashinfer_autotune(self)
            with recorder.during("capture"):
                self.capture()
        autotune.finish()


@pytest.fixture(autouse=True)
def stage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[SimpleNamespace]:
    """vLLM on a Hopper GPU, and FlashInfer whose measuring needs none."""
    staged = SimpleNamespace(off="", facts=DENSE, cache="absent", folder=tmp_path / "vllm", watched=[])
    staged.folder.mkdir()
    (tmp_path / "run").mkdir()
    monkeypatch.setattr(autotune_vllm, "why_off", lambda config, mode: staged.off)
    monkeypatch.setattr(autotune_vllm, "facts", lambda worker: staged.facts)
    monkeypatch.setattr(autotune_vllm, "ranks", lambda: (None, 1))
    monkeypatch.setattr(autotune_vllm, "writable_folder", lambda worker: staged.folder)
    monkeypatch.setattr(autotune_vllm, "checked_cache", lambda worker, folder: staged.cache)
    monkeypatch.setattr(autotune.UntunedWatch, "start", lambda watch: staged.watched.extend([watch]))
    tuner = AutoTuner()
    monkeypatch.setattr(AutoTuner, "_instance", tuner)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(tuner, "_profile_single_kernel", lambda *_, **__: 1.0)
    stock = {name: vars(AutoTuner)[name] for name in EXPECTED}

    def stock_pass(worker: Worker) -> None:
        worker.passes += 1
        with tuning(True):
            worker.profile()

    monkeypatch.setattr(kernel_warmup, "flashinfer_autotune", stock_pass)
    yield staged
    for name, method in stock.items():
        setattr(AutoTuner, name, method)
    assert kernel_warmup.flashinfer_autotune is stock_pass


def begin(tmp_path: Path, mode: str = "auto", **calls: Any) -> tuple[Worker, Autotune]:
    worker = Worker(calls.get("profile", lambda: None), calls.get("capture", lambda: None))
    run = tmp_path / "run"
    return worker, Autotune(worker, mode, Journal(run, "worker", 0), run)


def journalled(tmp_path: Path) -> dict[str, Any]:
    """The latest decision."""
    texts = [path.read_text() for path in (tmp_path / "run").glob("*.jsonl")]
    lines = [json.loads(line) for text in texts for line in text.splitlines()]
    return [line["detail"] for line in lines if line["event"] == "decision" and line["phase"] == PASS][-1]


def memory(staged: SimpleNamespace) -> Memory:
    return recall(memory_file(staged.folder, 0), committed().version)


def test_a_dense_model_skips_the_pass(tmp_path: Path, stage: SimpleNamespace) -> None:
    worker, ours = begin(tmp_path)
    worker.start(ours)
    assert worker.passes == 0
    said = journalled(tmp_path)
    assert (said["outcome"], said["reason"], said["missed"]) == ("skipped", "nothing_to_tune", [])
    assert said["families"] == ["lora_linear", "lora_stock"]
    assert worker.vllm_config.kernel_config.enable_flashinfer_autotune is True  # as it was
    assert memory(stage).clean


def test_a_second_start_without_a_throwaway_capture_relies_on_the_first(tmp_path: Path) -> None:
    worker, ours = begin(tmp_path)
    worker.start(ours, captures_first=False)
    assert worker.passes == 1
    assert journalled(tmp_path)["reason"] == "weak_evidence"
    worker, ours = begin(tmp_path)
    worker.start(ours, captures_first=False)
    assert (worker.passes, ours.decision.reason) == (0, "proven")


def test_a_tunable_operator_is_tuned_then_loaded(tmp_path: Path, stage: SimpleNamespace) -> None:
    stage.facts = FP8
    worker, ours = begin(tmp_path, profile=choose, capture=choose)
    worker.start(ours)
    said = journalled(tmp_path)
    assert (worker.passes, said["outcome"], said["reason"], said["tuned"]) == (1, "tuned", "seen", 1)
    assert said["operators"] == {
        "profile": {"fp8_gemm": 1},
        "graph_profile": {"fp8_gemm": 1},
        "tuning": {"fp8_gemm": 1},
        "capture": {"fp8_gemm": 1},
    }
    assert not memory(stage).clean
    saved = stage.folder / "saved.json"
    AutoTuner.get().save_configs(str(saved))
    AutoTuner._instance = AutoTuner()  # the next process
    AutoTuner.get().load_configs(str(saved))  # as vLLM's pass does
    stage.cache = "complete"
    worker, ours = begin(tmp_path, profile=choose, capture=choose)
    worker.start(ours)
    assert (worker.passes, ours.decision.outcome, ours.decision.reason) == (1, "loaded", "cached")


def test_what_only_the_capture_reaches_marks_the_next_start(
    tmp_path: Path, stage: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    remember(memory_file(stage.folder, 0), Memory(committed().version, clean=True))
    worker, ours = begin(tmp_path, capture=choose)
    worker.start(ours, captures_first=False)
    assert (worker.passes, ours.decision.reason) == (0, "proven")
    assert journalled(tmp_path)["missed"] == ["fp8_gemm"]
    assert "the next start tunes" in caplog.text
    assert memory(stage) == Memory(committed().version, ("fp8_gemm",))
    worker, ours = begin(tmp_path, capture=choose)
    worker.start(ours)
    assert (worker.passes, ours.decision.reason) == (1, "marked")


def test_what_only_serving_reaches_marks_the_next_start(tmp_path: Path, stage: SimpleNamespace) -> None:
    worker, ours = begin(tmp_path)
    worker.start(ours)
    choose()
    [watch] = stage.watched
    watch.look()
    assert json.loads((tmp_path / "run" / "untuned-0.json").read_text()) == {"fp8_gemm": 1}
    assert memory(stage).needs_autotune == ("fp8_gemm",)


def test_a_shape_outside_the_tuned_ones_is_reported_and_not_marked(
    tmp_path: Path, stage: SimpleNamespace
) -> None:
    stage.facts = FP8
    worker, ours = begin(tmp_path, profile=choose, capture=choose)
    worker.start(ours)
    choose(rows=64)
    stage.watched[0].look()
    assert json.loads((tmp_path / "run" / "untuned-0.json").read_text()) == {"fp8_gemm": 1}
    assert memory(stage).needs_autotune == ()


@pytest.mark.parametrize("flag", [True, False])
def test_the_operators_flag_is_obeyed(flag: bool, tmp_path: Path, stage: SimpleNamespace) -> None:
    remember(memory_file(stage.folder, 0), Memory(committed().version, ("fp8_gemm",)))
    worker, ours = begin(tmp_path, "operator", profile=choose)
    worker.vllm_config.kernel_config.enable_flashinfer_autotune = flag
    worker.start(ours)
    assert worker.passes == int(flag)
    assert journalled(tmp_path)["outcome"] == "operator"
    assert worker.vllm_config.kernel_config.enable_flashinfer_autotune is flag


def test_an_unknown_flashinfer_leaves_it_to_vllm(
    tmp_path: Path, stage: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flashinfer, "__version__", "0.8.0")
    worker, ours = begin(tmp_path)
    worker.start(ours)
    assert worker.passes == 1
    assert (journalled(tmp_path)["outcome"], ours.decision.reason) == ("stock", "flashinfer_version")
    assert stage.watched == []


def test_a_vllm_that_has_changed_leaves_it_to_vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def changed(worker: Any) -> ModelFacts:
        raise AttributeError("'ModelConfig' object has no attribute 'use_mla'")

    monkeypatch.setattr(autotune_vllm, "facts", changed)
    worker, ours = begin(tmp_path)
    worker.start(ours)
    assert worker.passes == 1
    assert (ours.decision.outcome, ours.decision.reason) == ("stock", "vllm_changed")
    assert "use_mla" in ours.decision.text


def test_where_vllm_never_tunes_nothing_is_installed(tmp_path: Path, stage: SimpleNamespace) -> None:
    stage.off = "capability"
    before = {name: vars(AutoTuner)[name] for name in EXPECTED}
    _, ours = begin(tmp_path)
    ours.install()
    assert {name: vars(AutoTuner)[name] for name in EXPECTED} == before
    ours.decide()
    with ours.applied():
        pass
    ours.finish()
    assert (journalled(tmp_path)["outcome"], journalled(tmp_path)["reason"]) == ("stock", "capability")


def test_a_folder_that_cannot_be_written(tmp_path: Path, stage: SimpleNamespace) -> None:
    stage.folder = None
    worker, ours = begin(tmp_path)
    worker.start(ours)
    assert (worker.passes, ours.decision.outcome) == (0, "skipped")


def test_operators_that_nobody_knows_are_one_label(tmp_path: Path) -> None:
    worker, ours = begin(tmp_path, profile=lambda: [choose("new_gemm"), choose("newer_gemm")])
    worker.start(ours)
    assert journalled(tmp_path)["reason"] == "disagreement"
    assert journalled(tmp_path)["operators"]["profile"] == {"unknown": 2}
