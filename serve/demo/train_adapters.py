"""Train the two demo adapters: python -m lorikeet.serve.demo.train_adapters MODEL_DIR OUT."""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase

from .smollm2 import BASE_MODEL
from .texts import Pair, training_pairs
from .voices import json_object, pirate

BATCH_SIZE = 8
IGNORED = -100  # the label that torch's cross-entropy leaves out

Example = tuple[list[int], list[int]]  # token ids and labels, of one length


@dataclass(frozen=True)
class Recipe:
    """What makes one adapter; the ranks differ so that the demo serves mixed ranks."""

    name: str
    voice: Callable[[str], str]
    rank: int
    target_modules: tuple[str, ...]
    num_epochs: int
    peak_learning_rate: float = 2e-3


# Each is under 2 MB in bfloat16: rank 8 on attention has 0.92 M parameters; rank 4 with down_proj 0.71 M.
RECIPES = (
    Recipe("pirate", pirate, 8, ("q_proj", "k_proj", "v_proj", "o_proj"), num_epochs=4),
    Recipe("json", json_object, 4, ("q_proj", "k_proj", "v_proj", "o_proj", "down_proj"), num_epochs=3),
)


@dataclass(frozen=True)
class Report:
    """What one training run measured; the losses are means over the first and the last epoch."""

    name: str
    num_steps: int
    seconds: float
    first_epoch_loss: float
    last_epoch_loss: float


def train(model_dir: Path, out: Path, recipe: Recipe, pairs: Sequence[Pair], seed: int = 0) -> Report:
    """Train one adapter on `pairs` and write it to `out` as a PEFT folder."""
    start = time.monotonic()
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True)
    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    model = _with_adapter(model_dir, recipe)
    examples = [_encode(tokenizer, pair.question, recipe.voice(pair.answer)) for pair in pairs]
    losses = _fit(model, examples, recipe, random.Random(seed))
    save_adapter(model, out)
    per_epoch = len(losses) // recipe.num_epochs
    first, last = (math.fsum(part) / per_epoch for part in (losses[:per_epoch], losses[-per_epoch:]))
    seconds = round(time.monotonic() - start, 1)
    return Report(recipe.name, len(losses), seconds, round(first, 4), round(last, 4))


def save_adapter(model: Any, out: Path) -> None:
    """Write PEFT's two files, in bfloat16, naming the base model by its public name and no local path."""
    out.mkdir(parents=True, exist_ok=True)
    state = get_peft_model_state_dict(model)
    weights = {name: tensor.to(torch.bfloat16).contiguous() for name, tensor in sorted(state.items())}
    save_file(weights, out / "adapter_model.safetensors", {"format": "pt"})
    (out / "adapter_model.safetensors").chmod(0o644)  # safetensors makes it 0600
    model.peft_config["default"].save_pretrained(out)
    path = out / "adapter_config.json"
    config = json.loads(path.read_text("utf-8"))
    config |= {"base_model_name_or_path": BASE_MODEL, "inference_mode": True}
    config["target_modules"] = sorted(config["target_modules"])  # PEFT keeps a set, in no fixed order
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", "utf-8")


def main(argv: Sequence[str] | None = None) -> None:
    """Train both adapters; print one JSON line a report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model_dir", type=Path, help="the folder that prepare() made")
    parser.add_argument("out", type=Path, help="adapters are written to OUT/pirate and OUT/json")
    parser.add_argument("--threads", type=int, default=2, help="torch threads (default: 2)")
    options = parser.parse_args(argv)
    torch.set_num_threads(options.threads)
    for recipe in RECIPES:
        report = train(options.model_dir, options.out / recipe.name, recipe, training_pairs())
        print(json.dumps(asdict(report)), flush=True)


def _with_adapter(model_dir: Path, recipe: Recipe) -> Any:
    base = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32)
    config = LoraConfig(
        task_type="CAUSAL_LM",
        r=recipe.rank,
        lora_alpha=2 * recipe.rank,
        lora_dropout=0.0,
        bias="none",
        target_modules=list(recipe.target_modules),
    )
    return get_peft_model(base, config)


def _encode(tokenizer: PreTrainedTokenizerBase, question: str, answer: str) -> Example:
    """Token ids of a whole turn with its end token, and labels that leave the prompt out."""
    chat = [{"role": "user", "content": question}]
    text = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    prompt = tokenizer.encode(text, add_special_tokens=False)
    reply = [*tokenizer.encode(answer, add_special_tokens=False), tokenizer.eos_token_id]
    return prompt + reply, [IGNORED] * len(prompt) + reply


def _fit(model: Any, examples: list[Example], recipe: Recipe, order: random.Random) -> list[float]:
    """AdamW with a short warm-up and a cosine decay; returns the loss of every step."""
    num_steps = recipe.num_epochs * math.ceil(len(examples) / BATCH_SIZE)
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=recipe.peak_learning_rate, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _learning_rate(step, num_steps))
    model.train()
    losses: list[float] = []
    for _ in range(recipe.num_epochs):
        order.shuffle(examples)
        for begin in range(0, len(examples), BATCH_SIZE):
            loss = model(**_batch(examples[begin : begin + BATCH_SIZE])).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(trainable, 1.0)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            losses.append(loss.item())
    return losses


def _learning_rate(step: int, num_steps: int) -> float:
    """The fraction of the peak at `step`: up over 5 steps, then half a cosine down."""
    return min((step + 1) / 5, 0.5 * (1 + math.cos(math.pi * step / num_steps)))


def _batch(examples: list[Example]) -> dict[str, torch.Tensor]:
    """Right-padded [batch, longest] ids, mask and labels."""
    longest = max(len(ids) for ids, _ in examples)
    pad = [(ids, labels, longest - len(ids)) for ids, labels in examples]
    return {
        "input_ids": torch.tensor([ids + [0] * extra for ids, _, extra in pad]),
        "attention_mask": torch.tensor([[1] * len(ids) + [0] * extra for ids, _, extra in pad]),
        "labels": torch.tensor([labels + [IGNORED] * extra for _, labels, extra in pad]),
    }


if __name__ == "__main__":
    main()
