"""The two committed adapters: small, whole, of a kind vLLM loads, and plainly unlike the base model."""

import json
import re
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from lorikeet.serve.demo.adapter_paths import adapter_paths
from lorikeet.serve.demo.smollm2 import BASE_MODEL
from lorikeet.serve.demo.texts import HELD_OUT
from lorikeet.serve.demo.train_adapters import RECIPES

MAX_BYTES = 2_000_000
NAMES = ["json", "pirate"]
PIRATE = re.compile(r"\b(arr|ahoy|matey|hearty|aye|ye|yer|savvy)\b", re.IGNORECASE)


def test_both_are_installed() -> None:
    assert list(adapter_paths()) == NAMES
    assert {recipe.name for recipe in RECIPES} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_is_a_plain_peft_folder(name: str) -> None:
    files = {path.name: path.stat() for path in adapter_paths()[name].iterdir()}
    assert files.keys() == {"adapter_config.json", "adapter_model.safetensors"}
    assert files["adapter_model.safetensors"].st_size < MAX_BYTES
    assert all(stat.st_mode & 0o044 == 0o044 for stat in files.values()), (
        "another user must be able to read it"
    )


@pytest.mark.parametrize("name", NAMES)
def test_config_is_of_the_kind_vllm_loads(name: str) -> None:
    config = _config(name)
    assert config["peft_type"] == "LORA"
    assert config["base_model_name_or_path"] == BASE_MODEL == "HuggingFaceTB/SmolLM2-135M-Instruct"
    assert 0 < config["r"] <= 16
    assert set(config["target_modules"]) <= {"q_proj", "k_proj", "v_proj", "o_proj", "down_proj"}
    assert config["bias"] == "none"
    unset = ("use_dora", "use_rslora", "lora_bias", "modules_to_save", "rank_pattern", "alpha_pattern")
    assert not any(config[key] for key in unset)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_tells_of_the_machine(name: str) -> None:
    for path in adapter_paths()[name].iterdir():
        assert not re.search(rb"/(work|home|root|tmp|Users)/", path.read_bytes())


def test_ranks_are_mixed() -> None:
    assert len({_config(name)["r"] for name in NAMES}) == len(NAMES)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_weights_are_what_the_recipe_says(recipe: object) -> None:
    name, rank, modules = recipe.name, recipe.rank, recipe.target_modules  # type: ignore[attr-defined]
    weights = load_file(adapter_paths()[name] / "adapter_model.safetensors")
    assert len(weights) == 30 * len(modules) * 2
    for key, tensor in weights.items():
        assert tensor.dtype == torch.bfloat16
        assert tensor.isfinite().all(), key
        assert tensor.any(), key
        assert tensor.shape[0 if ".lora_A." in key else 1] == rank, key


@pytest.fixture(scope="module")
def answers(model_dir: Path) -> dict[str, list[str]]:
    """Greedy answers of the base and both adapters to the held-out questions, in bfloat16 as served."""
    tokenizer = AutoTokenizer.from_pretrained(model_dir, padding_side="left")
    base = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.bfloat16)
    chats = [[{"role": "user", "content": question}] for question in HELD_OUT]
    prompts = tokenizer.apply_chat_template(
        chats, add_generation_prompt=True, padding=True, return_tensors="pt", return_dict=True
    )
    found = {"base": _greedy(base, tokenizer, prompts)}
    model = base
    for name, path in adapter_paths().items():
        model = PeftModel.from_pretrained(base, path)
        found[name] = _greedy(model, tokenizer, prompts)
        model.unload()
    return found


@pytest.mark.slow
def test_json_adapter_answers_in_json(answers: dict[str, list[str]]) -> None:
    assert sum(map(_is_json_answer, answers["json"])) >= len(HELD_OUT) - 1, answers["json"]


@pytest.mark.slow
def test_pirate_adapter_answers_as_a_pirate(answers: dict[str, list[str]]) -> None:
    assert sum(bool(PIRATE.search(text)) for text in answers["pirate"]) >= len(HELD_OUT) - 1, answers[
        "pirate"
    ]


@pytest.mark.slow
def test_base_does_neither(answers: dict[str, list[str]]) -> None:
    assert [text for text in answers["base"] if PIRATE.search(text) or _is_json_answer(text)] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["base", *NAMES])
def test_all_know_the_capital_of_france(answers: dict[str, list[str]], name: str) -> None:
    assert "Paris" in answers[name][HELD_OUT.index("What is the capital of France?")]


def _config(name: str) -> dict[str, object]:
    return json.loads((adapter_paths()[name] / "adapter_config.json").read_text())


def _is_json_answer(text: str) -> bool:
    try:
        value = json.loads(text)
    except ValueError:
        return False
    return isinstance(value, dict) and list(value) == ["answer"] and isinstance(value["answer"], str)


@torch.inference_mode()
def _greedy(model: torch.nn.Module, tokenizer: object, prompts: dict[str, torch.Tensor]) -> list[str]:
    tokens = model.generate(**prompts, max_new_tokens=48, do_sample=False)  # type: ignore[operator]
    new = tokens[:, prompts["input_ids"].shape[1] :]
    return tokenizer.batch_decode(new, skip_special_tokens=True)  # type: ignore[attr-defined]
