"""What servers write for the same prompts: greedy tokens and their log-probabilities."""

import json
import math
import random
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

OUTPUT_TOKENS = 16
NUM_TOP = 5


@dataclass(frozen=True)
class Output:
    tokens: tuple[str, ...]
    first_top: dict[str, float]  # token → log-probability at the first position

    @property
    def is_finite(self) -> bool:
        return all(math.isfinite(value) for value in self.first_top.values())


def make_prompts(num: int, num_tokens: int, vocabulary: int) -> list[str]:
    draw = random.Random(0)
    return [" ".join(f"t{draw.randrange(3, vocabulary)}" for _ in range(num_tokens)) for _ in range(num)]


def collect(url: str, models: Sequence[str], prompts: Sequence[str]) -> dict[tuple[str, int], Output]:
    """Ask each prompt of all models at the same time, so that the batch mixes them."""
    outputs = {}
    with ThreadPoolExecutor(len(models)) as pool:
        for number, prompt in enumerate(prompts):
            answers = pool.map(lambda model, prompt=prompt: ask(url, model, prompt), models)
            outputs |= {(model, number): output for model, output in zip(models, answers, strict=True)}
    return outputs


def ask(url: str, model: str, prompt: str) -> Output:
    body = {
        "model": model,
        "prompt": prompt,
        "max_tokens": OUTPUT_TOKENS,
        "temperature": 0,
        "ignore_eos": True,
        "logprobs": NUM_TOP,
        "return_tokens_as_token_ids": True,
    }
    request = urllib.request.Request(
        f"{url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        logprobs = json.load(answer)["choices"][0]["logprobs"]
    return Output(tuple(logprobs["tokens"]), logprobs["top_logprobs"][0])


def compare(left: dict[tuple[str, int], Output], right: dict[tuple[str, int], Output]) -> dict[str, Any]:
    """How many texts agree, and how far log-probabilities at the first position are apart."""
    apart = [
        abs(left[key].first_top[token] - right[key].first_top[token])
        for key in left
        for token in left[key].first_top.keys() & right[key].first_top.keys()
    ]
    return {
        "texts": len(left),
        "same_text": sum(left[key].tokens == right[key].tokens for key in left),
        "same_first_token": sum(left[key].tokens[0] == right[key].tokens[0] for key in left),
        "common_top_tokens": len(apart),
        "max_logprob_difference": round(max(apart, default=math.nan), 5),
    }
