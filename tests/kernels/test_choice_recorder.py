"""The recorder on FlashInfer's real AutoTuner, with a runner that needs no GPU."""

import threading
import time
import timeit
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from lorikeet.kernels.choice_recorder import EXPECTED, ChoiceRecorder, RecorderOffError
from lorikeet.kernels.flashinfer_scan import committed
from lorikeet.kernels.seams import parameters

flashinfer = pytest.importorskip("flashinfer")
from flashinfer.autotuner import AutoTuner, TunableRunner, TuningConfig, autotune  # noqa: E402


class Runner(TunableRunner):
    """Two variants; the second is the faster one by the test's clock."""

    def get_valid_tactics(self, inputs: list[torch.Tensor], profile: Any) -> list[int]:
        return [0, 1]

    def forward(self, inputs: list[torch.Tensor], tactic: Any = -1, do_preparation: bool = False, **_: Any):
        return inputs[0]


@pytest.fixture
def tuner(monkeypatch: pytest.MonkeyPatch) -> AutoTuner:
    """A tuner of its own instead of the process's; what needs a GPU is the measuring alone."""
    tuner = AutoTuner()
    monkeypatch.setattr(AutoTuner, "_instance", tuner)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(
        tuner, "_profile_single_kernel", lambda runner, tensors, tactic, *_, **__: 2.0 - tactic
    )
    return tuner


@pytest.fixture
def recorder() -> Iterator[ChoiceRecorder]:
    recorder = ChoiceRecorder()
    uninstall = recorder.install(AutoTuner, flashinfer.__version__)
    yield recorder
    uninstall()


def choose(tuner: AutoTuner, operator: str = "fp4_gemm", rows: int = 4) -> Any:
    return tuner.choose_one(operator, [Runner()], TuningConfig(), [torch.zeros(rows, 4)])


def test_counts_calls_by_operator_and_period(tuner: AutoTuner, recorder: ChoiceRecorder) -> None:
    with recorder.during("profile"):
        choose(tuner)
        choose(tuner)
        with recorder.during("graph_profile"):
            choose(tuner, "bf16_gemm")
    assert recorder.periods["profile"].asked == {"fp4_gemm": 2}
    assert recorder.periods["graph_profile"].asked == {"bf16_gemm": 1}
    assert recorder.asked("profile", "graph_profile") == {"fp4_gemm", "bf16_gemm"}
    assert recorder.period == "start"


def test_an_operator_that_was_never_tuned_is_untuned(tuner: AutoTuner, recorder: ChoiceRecorder) -> None:
    recorder.serve()
    choose(tuner)
    choose(tuner)
    assert recorder.untuned("serving") == {"fp4_gemm": 2}


def test_a_tuned_one_is_not_even_where_its_variant_is_minus_one(
    tuner: AutoTuner, recorder: ChoiceRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Runner, "get_valid_tactics", lambda *_: [-1])
    with recorder.during("tuning"), autotune(True):
        choose(tuner)
    recorder.serve()
    assert choose(tuner)[1] == -1
    assert recorder.untuned("tuning") == {}
    assert recorder.untuned("serving") == {}
    choose(tuner, rows=8)  # of this shape nothing was measured
    assert recorder.untuned("serving") == {"fp4_gemm": 1}


def test_tuning_still_tunes(tuner: AutoTuner, recorder: ChoiceRecorder) -> None:
    with autotune(True):
        assert choose(tuner)[1] == 1
    assert choose(tuner)[1] == 1


def test_skipped_operators_are_asked_and_not_untuned(tuner: AutoTuner, recorder: ChoiceRecorder) -> None:
    with recorder.during("tuning"), autotune(True, skip_ops={"fp4_gemm"}):
        assert choose(tuner)[1] == -1
    assert recorder.periods["tuning"].asked == {"fp4_gemm": 1}
    assert recorder.untuned("tuning") == {}


def test_a_search_without_a_choice_counts(tuner: AutoTuner, recorder: ChoiceRecorder) -> None:
    recorder.serve()
    tuner.search_cache("flashinfer::pcie_ipc_all_reduce", [Runner()], ((4, 4),), TuningConfig())
    assert recorder.asked("serving") == {"flashinfer::pcie_ipc_all_reduce"}
    assert recorder.untuned("serving") == {"flashinfer::pcie_ipc_all_reduce": 1}


def test_the_operators_name_can_be_a_keyword(tuner: AutoTuner, recorder: ChoiceRecorder) -> None:
    tuner.choose_one(
        custom_op="moe_trtllm", runners=[Runner()], tuning_config=TuningConfig(), inputs=[torch.zeros(2)]
    )
    assert recorder.asked("start") == {"moe_trtllm"}


def test_what_the_original_raises_passes_on(tuner: AutoTuner, recorder: ChoiceRecorder) -> None:
    with pytest.raises(IndexError):
        tuner.choose_one("fp4_gemm", [], TuningConfig(), [torch.zeros(2)])


def test_it_takes_no_lock(tuner: AutoTuner, recorder: ChoiceRecorder) -> None:
    """While another thread holds the tuner's lock, a call is counted and waits where it always did."""
    tuner._lock.acquire()
    thread = threading.Thread(target=choose, args=(tuner,))
    try:
        thread.start()
        deadline = time.monotonic() + 10
        while not recorder.asked("start") and time.monotonic() < deadline:
            time.sleep(0.01)
        assert recorder.asked("start") == {"fp4_gemm"}
        assert thread.is_alive()
    finally:
        tuner._lock.release()
    thread.join(10)
    assert not thread.is_alive()


def test_it_breaks_no_graph() -> None:
    """Traced by Dynamo as one graph, and still counting."""

    class Traceable:
        is_tuning_mode = False

        def choose_one(self, custom_op, runners, tuning_config, inputs, **kwargs):
            return runners[0], -1

        def search_cache(self, custom_op, runners, input_shapes, tuning_config, inputs=None):
            return False, 0, -1, None

        def rank_tactics(self, custom_op, runners, tuning_config, inputs, k=1, **kwargs):
            return [-1]

    recorder = ChoiceRecorder()
    recorder.install(Traceable, committed().version)
    tuner = Traceable()

    @torch.compile(backend="eager", fullgraph=True)
    def layer(x: torch.Tensor) -> torch.Tensor:
        _, tactic = tuner.choose_one("fp4_gemm", [None], None, [x])
        tuner.search_cache("fp4_gemm", [None], (), None)
        return x + tactic

    assert torch.equal(layer(torch.ones(2)), torch.zeros(2))
    layer(torch.ones(2))
    assert recorder.periods["start"].asked == {"fp4_gemm": 2}
    assert recorder.periods["start"].untuned == {"fp4_gemm": 2}


def test_it_costs_less_than_a_microsecond_a_call() -> None:
    class Empty:
        is_tuning_mode = False

        def choose_one(self, custom_op, runners, tuning_config, inputs, **kwargs):
            return None

        def search_cache(self, custom_op, runners, input_shapes, tuning_config, inputs=None):
            return (True,)

        def rank_tactics(self, custom_op, runners, tuning_config, inputs, k=1, **kwargs):
            return None

    def seconds() -> float:
        return min(timeit.repeat(lambda: Empty().choose_one("op", 1, 2, 3), number=20_000, repeat=7)) / 20_000

    stock_s = seconds()
    ChoiceRecorder().install(Empty, committed().version)
    assert seconds() - stock_s < 1e-6


def test_flashinfers_own_signatures() -> None:
    assert {name: parameters(getattr(AutoTuner, name)) for name in EXPECTED} == EXPECTED


@pytest.mark.parametrize("method", EXPECTED)
def test_a_changed_signature_leaves_everything_as_it_was(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AutoTuner, method, lambda self, operator: None)
    before = {name: vars(AutoTuner)[name] for name in EXPECTED}
    with pytest.raises(RecorderOffError, match=f"AutoTuner.{method} is .*operator.*, expected") as raised:
        ChoiceRecorder().install(AutoTuner, committed().version)
    assert raised.value.reason == "flashinfer_signature"
    assert {name: vars(AutoTuner)[name] for name in EXPECTED} == before


def test_a_method_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(AutoTuner, "rank_tactics")
    with pytest.raises(RecorderOffError, match="is missing"):
        ChoiceRecorder().install(AutoTuner, committed().version)


def test_an_unknown_version() -> None:
    with pytest.raises(
        RecorderOffError, match=r"FlashInfer is 0\.8\.0, the registry was written for"
    ) as raised:
        ChoiceRecorder().install(AutoTuner, "0.8.0")
    assert raised.value.reason == "flashinfer_version"
