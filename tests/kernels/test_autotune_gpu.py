"""FlashInfer's real autotuner on a real GPU: a start that tunes, and a second one that loads.

The operator is staged, two ways to multiply matrices of which one is many times slower, so that nothing of
FlashInfer's has to be compiled. Everything else is real: measuring on the GPU, the saved file, the recorder.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from lorikeet.kernels import autotune, autotune_vllm
from lorikeet.kernels.autotune import PASS, Autotune
from lorikeet.kernels.autotune_file import cache_state
from lorikeet.kernels.choice_recorder import EXPECTED, ChoiceRecorder
from lorikeet.kernels.journal import Journal
from lorikeet.kernels.model_facts import ModelFacts

flashinfer = pytest.importorskip("flashinfer")
from flashinfer import autotuner  # noqa: E402
from flashinfer.autotuner import AutoTuner, TunableRunner, TuningConfig  # noqa: E402
from vllm.model_executor.warmup import kernel_warmup  # noqa: E402

pytestmark = pytest.mark.gpu

FP8 = ModelFacts("SomeForCausalLM", frozenset({"FlashInferFP8ScaledMMLinearKernel"}))
SIZE = 1024
FAST = 1
NUM_TIMED = 50


class Multiply(TunableRunner):
    """x · W, whole (tactic 1) or row by row (0); untuned (-1) it is row by row."""

    def get_valid_tactics(self, inputs: list[torch.Tensor], profile: Any) -> list[int]:
        return [0, FAST]

    def forward(self, inputs: list[torch.Tensor], tactic: Any = -1, do_preparation: bool = False, **_: Any):
        x, weight = inputs
        return x @ weight if tactic == FAST else torch.stack([row @ weight for row in x])


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[SimpleNamespace]:
    x = torch.randn(64, SIZE, device="cuda", dtype=torch.bfloat16)
    staged = SimpleNamespace(inputs=[x, torch.randn(SIZE, SIZE, device="cuda", dtype=torch.bfloat16)])
    staged.file = tmp_path / "autotune_configs_dp0_rank0.json"
    monkeypatch.setattr(autotune_vllm, "why_off", lambda config, mode: "")
    monkeypatch.setattr(autotune_vllm, "facts", lambda worker: FP8)
    monkeypatch.setattr(autotune_vllm, "ranks", lambda: (None, 1))
    monkeypatch.setattr(autotune_vllm, "writable_folder", lambda worker: tmp_path)
    monkeypatch.setattr(
        autotune_vllm,
        "checked_cache",
        lambda worker, folder: cache_state(staged.file, autotuner._collect_metadata),
    )
    monkeypatch.setattr(autotune.UntunedWatch, "start", lambda watch: None)

    def stock_pass(runner: Any) -> None:
        """What vLLM's does with one rank."""
        tuner = AutoTuner.get()
        if staged.file.exists():
            assert tuner.load_configs(str(staged.file))
        with autotuner.autotune(True):
            forward(staged)
        if tuner._dirty:
            tuner.save_configs(str(staged.file))

    monkeypatch.setattr(kernel_warmup, "flashinfer_autotune", stock_pass)
    monkeypatch.setattr(AutoTuner, "_instance", new_tuner())
    stock = {name: vars(AutoTuner)[name] for name in EXPECTED}
    yield staged
    for name, method in stock.items():
        setattr(AutoTuner, name, method)


def new_tuner() -> AutoTuner:
    """As in a new process. Without the delay before each measurement, whose kernel needs a compiler."""
    return AutoTuner(stream_delay_micro_secs=0)


def forward(staged: SimpleNamespace) -> torch.Tensor:
    runner, tactic = AutoTuner.get().choose_one("fp8_gemm", [Multiply()], TuningConfig(), staged.inputs)
    return runner(staged.inputs, tactic=tactic)


def start(staged: SimpleNamespace, folder: Path) -> dict[str, Any]:
    """One start with a tuner of its own, as in a new process; returns the journalled decision."""
    AutoTuner._instance = new_tuner()
    folder.mkdir()
    worker = SimpleNamespace(
        rank=0, vllm_config=SimpleNamespace(kernel_config=SimpleNamespace(enable_flashinfer_autotune=True))
    )
    ours = Autotune(worker, "auto", Journal(folder, "worker", 0), folder)
    ours.install()
    with ours.recorder.during("profile"):
        forward(staged)
        with ours.recorder.during("graph_profile"):
            forward(staged)
    ours.decide()
    with ours.applied():
        if worker.vllm_config.kernel_config.enable_flashinfer_autotune:
            kernel_warmup.flashinfer_autotune(worker)
        with ours.recorder.during("capture"):
            forward(staged)
    ours.finish()
    lines = [json.loads(line) for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]
    return next(line["detail"] for line in lines if line["event"] == "decision" and line["phase"] == PASS)


def milliseconds(staged: SimpleNamespace) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    forward(staged)
    begin.record()
    for _ in range(NUM_TIMED):
        forward(staged)
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / NUM_TIMED


def test_tuned_then_loaded_and_as_fast_as_stock(stage: SimpleNamespace, tmp_path: Path) -> None:
    untuned_ms = milliseconds(stage)
    first = start(stage, tmp_path / "first")
    assert (first["outcome"], first["reason"], first["tuned"]) == ("tuned", "seen", 1)
    tuned_ms = milliseconds(stage)
    second = start(stage, tmp_path / "second")
    assert (second["outcome"], second["reason"], second["tuned"]) == ("loaded", "cached", 0)
    loaded_ms = milliseconds(stage)

    AutoTuner._instance = new_tuner()  # stock: vLLM's pass without us
    stage.file.unlink()
    kernel_warmup.flashinfer_autotune(None)
    stock_ms = milliseconds(stage)
    print(f"untuned {untuned_ms:.3f} ms, tuned {tuned_ms:.3f}, loaded {loaded_ms:.3f}, stock {stock_ms:.3f}")
    assert max(tuned_ms, loaded_ms) < 1.2 * stock_ms
    assert tuned_ms < untuned_ms / 2


def test_the_recorder_counts_in_a_capture_and_not_in_its_replay(
    stage: SimpleNamespace, tmp_path: Path
) -> None:
    start(stage, tmp_path / "run")
    recorder = ChoiceRecorder()
    recorder.install(AutoTuner, flashinfer.__version__)
    forward(stage)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = forward(stage)
    assert recorder.periods["start"].asked == {"fp8_gemm": 2}
    graph.replay()
    torch.cuda.synchronize()
    assert recorder.periods["start"].asked == {"fp8_gemm": 2}
    assert torch.equal(y, stage.inputs[0] @ stage.inputs[1])
