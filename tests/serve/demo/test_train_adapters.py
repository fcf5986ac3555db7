"""A short real training run: it learns, it writes a PEFT folder, and the same seed gives the same bytes."""

import json
import math
from pathlib import Path

import pytest
from peft import LoraConfig
from safetensors.torch import load_file
from transformers import AutoTokenizer

from lorikeet.serve.demo.texts import training_pairs
from lorikeet.serve.demo.train_adapters import IGNORED, Recipe, Report, _encode, _learning_rate, train
from lorikeet.serve.demo.voices import json_object

pytestmark = pytest.mark.slow

TINY = Recipe("tiny", json_object, 2, ("q_proj", "v_proj"), num_epochs=3)


@pytest.fixture(scope="module")
def run(model_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Report]:
    out = tmp_path_factory.mktemp("adapters") / "tiny"
    return out, train(model_dir, out, TINY, training_pairs()[:4])


def test_loss_falls(run: tuple[Path, Report]) -> None:
    _, report = run
    assert report.num_steps == 3
    assert math.isfinite(report.last_epoch_loss)
    assert report.last_epoch_loss < report.first_epoch_loss


def test_writes_a_peft_folder(run: tuple[Path, Report]) -> None:
    out, _ = run
    assert {path.name for path in out.iterdir()} == {"adapter_config.json", "adapter_model.safetensors"}
    config = LoraConfig.from_pretrained(str(out))
    assert (config.r, config.lora_alpha, config.bias) == (2, 4, "none")
    assert json.loads((out / "adapter_config.json").read_text())["target_modules"] == ["q_proj", "v_proj"]
    weights = load_file(out / "adapter_model.safetensors")
    assert len(weights) == 30 * 2 * 2
    assert all(tensor.any() for name, tensor in weights.items() if ".lora_B." in name), "B starts at zero"


def test_same_seed_gives_the_same_weights(run: tuple[Path, Report], model_dir: Path, tmp_path: Path) -> None:
    out, _ = run
    train(model_dir, tmp_path, TINY, training_pairs()[:4])
    name = "adapter_model.safetensors"
    assert (tmp_path / name).read_bytes() == (out / name).read_bytes()


def test_only_the_reply_and_its_end_are_learnt(model_dir: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    ids, labels = _encode(tokenizer, "Hi?", "Ho!")
    assert tokenizer.decode(ids).endswith("<|im_start|>assistant\nHo!<|im_end|>")
    assert tokenizer.decode([label for label in labels if label != IGNORED]) == "Ho!<|im_end|>"
    assert len(ids) == len(labels)


def test_learning_rate_rises_then_falls_to_almost_nothing() -> None:
    rates = [_learning_rate(step, 60) for step in range(60)]
    assert max(rates) <= 1
    assert rates[0] == 0.2
    assert rates[4] > 0.95
    assert rates[4:] == sorted(rates[4:], reverse=True)
    assert 0 < rates[-1] < 0.01
