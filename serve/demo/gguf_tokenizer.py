"""Write the tokenizer that a GGUF file describes as `tokenizer.json` and `tokenizer_config.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

_CONTROL = 3  # llama.cpp's token type of special tokens
_SPECIAL_IDS = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "unk_token": "unknown_token_id",
    "pad_token": "padding_token_id",
}


def write_tokenizer(metadata: dict[str, Any], folder: Path) -> None:
    """Write both files into `folder`; the chat template goes into the second."""
    build_tokenizer(metadata).save(str(folder / "tokenizer.json"))
    text = json.dumps(_tokenizer_config(metadata), indent=2, ensure_ascii=False)
    (folder / "tokenizer_config.json").write_text(text + "\n", "utf-8")


def build_tokenizer(metadata: dict[str, Any]) -> Tokenizer:
    """A byte-level BPE with SmolLM's own pre-tokenizer: each digit alone, then GPT-2's split.

    transformers' GGUF loader knows no split named `smollm` and uses GPT-2's alone. The two differ where two
    or more spaces stand before a digit; the published tokenizer.json and llama.cpp do as is done here.
    """
    kind = (metadata["tokenizer.ggml.model"], metadata["tokenizer.ggml.pre"])
    if kind != ("gpt2", "smollm"):
        raise ValueError(f"tokenizer {kind}, only ('gpt2', 'smollm') is read")
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    vocab = {token: index for index, token in enumerate(tokens)}
    merges = [_pair(merge) for merge in metadata["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    types: list[int] = metadata["tokenizer.ggml.token_type"]
    special = [token for token, kind in zip(tokens, types, strict=True) if kind == _CONTROL]
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in special])
    return tokenizer


def _pair(merge: str) -> tuple[str, str]:
    left, right = merge.split(" ")
    return left, right


def _tokenizer_config(metadata: dict[str, Any]) -> dict[str, Any]:
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    special = {name: tokens[metadata[f"tokenizer.ggml.{key}"]] for name, key in _SPECIAL_IDS.items()}
    return {
        # Not GPT2Tokenizer: transformers 5 would build that class's own pre-tokenizer, without the digits.
        "tokenizer_class": "PreTrainedTokenizerFast",
        **special,
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": metadata["llama.context_length"],
        "chat_template": metadata["tokenizer.chat_template"],
    }
