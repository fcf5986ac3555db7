"""What a worker settles before the model is traced."""

import json
import logging
from pathlib import Path

import pytest
import torch
from tuned_samples import SMALL, pair, write

from lorikeet.kernels import block_sizes, lora_linear
from lorikeet.kernels.block_sizes import settle_block_sizes, shapes_of
from lorikeet.kernels.config import Device
from lorikeet.kernels.journal import Journal
from lorikeet.kernels.synthetic import make_weights
from lorikeet.kernels.tuned import TunedConfigs

LAYERS = [make_weights(256, (128, 64), 16, 3, torch.float16, "cpu") for _ in range(2)]


@pytest.fixture(autouse=True)
def _device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lora_linear, "_tuned", [])
    monkeypatch.setattr(lora_linear, "device_of", lambda _: Device((9, 0), 232_448, "NVIDIA Made Up"))


def notes(folder: Path) -> list[dict]:
    lines = [json.loads(line) for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]
    return [line["detail"] for line in lines if (line["event"], line["phase"]) == ("note", "lora_configs")]


def settle(tmp_path: Path, **arguments) -> None:
    given = {"share": lambda tuned: tuned, "journal": Journal(tmp_path, "worker", 0), **arguments}
    settle_block_sizes(LAYERS, 16, tmp_path, **given)


def test_files_of_the_cache_volume_are_used_and_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "tuned", "NVIDIA Made Up", {(SMALL, 4): pair(64, 16)})
    with caplog.at_level(logging.INFO, "vllm.lorikeet"):
        settle(tmp_path)
    assert lora_linear._tuned[0].own == {SMALL: {4: pair(64, 16)}}
    (note,) = notes(tmp_path)
    assert note["matches"] == {"exact": 1, "default": 1}
    assert (note["gpu"], note["refused"]) == ("NVIDIA Made Up", 0)
    assert note["coverage"] == [{"shape": str(SMALL), "matches": {"4": "exact", "16": "default"}}]
    assert len(caplog.records) == 1
    assert "256→128+64" in caplog.text


def test_measured_ones_are_ignored_where_asked(tmp_path: Path) -> None:
    write(tmp_path / "tuned", "NVIDIA Made Up", {(SMALL, 4): pair(64, 16)})
    settle(tmp_path, ignore_measured=True)
    assert lora_linear._tuned == [TunedConfigs()]
    assert notes(tmp_path)[0]["matches"] == {"default": 2}


def test_a_hint_where_nothing_was_measured(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "vllm.lorikeet"):
        settle(tmp_path)
    assert "lorikeet tune MODEL" in caplog.records[-1].getMessage()
    assert "\n" not in caplog.records[-1].getMessage()


def test_other_ranks_use_what_the_first_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = TunedConfigs({SMALL: {16: pair(64, 16)}})
    with caplog.at_level(logging.INFO, "vllm.lorikeet"):
        settle(tmp_path, share=lambda _: first, is_first_rank=False)
    assert lora_linear._tuned == [first]
    assert notes(tmp_path)[0]["matches"] == {"exact": 1, "bucket": 1}
    assert not caplog.records


def test_nothing_happens_without_layers_of_ours(tmp_path: Path) -> None:
    settle_block_sizes([], 16, tmp_path, lambda tuned: pytest.fail("shared"), Journal(tmp_path, "worker", 0))
    assert notes(tmp_path) == []


def test_layers_with_many_slices_are_several_launches() -> None:
    layer = make_weights(64, (16, 16, 32, 48), 16, 2, torch.bfloat16, "cpu")
    assert [shape.n for shape in shapes_of([layer, layer])] == [(16, 16, 32), (48,)]
    assert block_sizes.shapes_of(LAYERS) == [SMALL]


def test_missing_shapes_are_measured_first_where_asked(tmp_path: Path) -> None:
    asked = []

    def tune(shapes, max_tokens: int, folder: Path) -> str:
        asked.append((shapes, max_tokens, folder))
        write(folder, "NVIDIA Made Up", {(SMALL, 16): pair(64, 16)})
        return "1 cell measured"

    settle(tmp_path, tune=tune, is_first_rank=False)
    assert asked == []
    settle(tmp_path, tune=tune)
    assert asked == [([SMALL], 16, tmp_path / "tuned")]
    assert notes(tmp_path)[-1]["matches"] == {"exact": 1, "bucket": 1}
    settle(tmp_path, tune=tune)
    assert len(asked) == 1  # the next start finds them


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_tuning_at_start_without_a_gpu_is_said_in_a_line(tmp_path: Path) -> None:
    from lorikeet.kernels.tuner.startup import startup_cells, tune_at_startup

    said = tune_at_startup([SMALL], 16, tmp_path, 1.0)
    assert said.startswith("nothing was measured: ")
    assert "no NVIDIA GPU here" in said
    assert [cell.bucket for cell in startup_cells([SMALL], 100)] == [4, 16, 32, 64, 128]
