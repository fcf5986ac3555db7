"""FlashInfer's saved measurements: those that FlashInfer itself wrote, and every kind of damage."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import torch

from lorikeet.kernels.autotune_file import cache_state, put_aside

pytest.importorskip("flashinfer")
from flashinfer.autotuner import AutoTuner, TunableRunner, TuningConfig, _collect_metadata, autotune


class Runner(TunableRunner):
    def get_valid_tactics(self, inputs: list[torch.Tensor], profile: Any) -> list[int]:
        return [0, 1]

    def forward(self, inputs: list[torch.Tensor], tactic: Any = -1, do_preparation: bool = False, **_: Any):
        return inputs[0]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file as FlashInfer saves it."""
    tuner = AutoTuner()
    monkeypatch.setattr(AutoTuner, "_instance", tuner)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(tuner, "_profile_single_kernel", lambda *_, **__: 1.0)
    with autotune(True):
        tuner.choose_one("fp8_gemm", [Runner()], TuningConfig(), [torch.zeros(2, 2)])
    path = tmp_path / "autotune_configs_dp0_rank0.json"
    tuner.save_configs(str(path))
    return path


def metadata(**changes: str) -> Any:
    return lambda: _collect_metadata() | changes


def test_flashinfers_own_file_is_complete(path: Path) -> None:
    assert cache_state(path, metadata()) == "complete"
    assert AutoTuner().load_configs(str(path))


def test_a_file_of_another_environment(path: Path) -> None:
    for changes in ({"flashinfer_version": "0.8.0"}, {"gpu": "NVIDIA B200"}, {"cuda_version": "13.1"}):
        assert cache_state(path, metadata(**changes)) == "mismatched"


def test_a_file_without_metadata_is_not_trusted(path: Path) -> None:
    data = json.loads(path.read_text())
    del data["_metadata"]
    path.write_text(json.dumps(data))
    assert cache_state(path, metadata()) == "mismatched"


def test_no_file(tmp_path: Path) -> None:
    assert cache_state(tmp_path / "none.json", metadata()) == "absent"


@pytest.mark.parametrize("kept", [0, 1, 50])
def test_truncated(kept: int, path: Path) -> None:
    path.write_bytes(path.read_bytes()[:kept])
    assert cache_state(path, metadata()) == "damaged"


@pytest.mark.parametrize(
    "content",
    [b"[]", b"null", b"3", b'{"op": 3}', b'{"op": []}', b'{"op": [1, 2]}', b'{"op": ["Runner"]}',
     b'{"_metadata": []}', b'{"_records": []}', b"\xff\xfe\x00"],
)  # fmt: skip
def test_another_form(content: bytes, path: Path) -> None:
    path.write_bytes(content)
    assert cache_state(path, metadata()) == "damaged"


def test_flashinfer_itself_raises_on_another_form(path: Path) -> None:
    """Why it is put aside: every start would end here."""
    path.write_text('{"op": 3}')
    with pytest.raises(TypeError):
        AutoTuner().load_configs(str(path))


def test_a_damaged_one_is_put_aside_with_one_warning(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.write_text("{")
    with caplog.at_level(logging.WARNING):
        put_aside(path)
    assert cache_state(path, metadata()) == "absent"
    assert [other.name for other in path.parent.iterdir()] == [f"{path.name}.damaged"]
    assert len(caplog.records) == 1


def test_one_that_cannot_be_moved_warns(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        put_aside(tmp_path / "gone.json")
    assert "can't be moved" in caplog.text


def test_a_folder_in_its_place(tmp_path: Path) -> None:
    assert cache_state(tmp_path, metadata()) == "unwritable"
