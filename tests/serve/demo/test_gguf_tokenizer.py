"""The written tokenizer: transformers' own GGUF reading, but for digits, and SmolLM2's chat template."""

from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from lorikeet.serve.demo.gguf_tokenizer import build_tokenizer
from lorikeet.serve.demo.smollm2 import find_gguf

TEXTS = [
    "",
    " ",
    "Hello, world!",
    "  leading and trailing  ",
    "tabs\tand\n\nnew lines\r\n",
    "3 apples, 12345 pears and 2.5e-3 plums in 1999's",
    "I'm sure they've said it'll do",
    "naïve café — “quoted” … façade",
    "日本語と中文 한국어 العربية हिन्दी",
    "emoji 😀👩‍👩‍👧‍👦🏳️‍🌈 and \u200b zero width",
    "def f(x):\n    return x ** 2  # code",
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
    "<|endoftext|><repo_name>x<file_sep><jupyter_code><empty_output>",
    "<|im_start|><|im_start|> <|im_end|>glued<|im_end|>",
    "not special: <|im_start> <im_end|> <|unknown|>",
    "\x00\x07\x7f \ufeff \ud7ff \U0010ffff",
]


@pytest.fixture(scope="module")
def ours(model_dir: Path) -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(model_dir)


@pytest.fixture(scope="module")
def reference() -> PreTrainedTokenizerBase:
    gguf = find_gguf()
    return AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_ids_equal_transformers_reading(
    ours: PreTrainedTokenizerBase, reference: PreTrainedTokenizerBase, text: str
) -> None:
    ids = ours.encode(text)
    assert ids == reference.encode(text)
    assert ours.decode(ids) == text
    assert ours.decode(ids, skip_special_tokens=True) == reference.decode(ids, skip_special_tokens=True)


@settings(max_examples=300, deadline=None)
@given(text=st.text(max_size=60))
def test_ids_equal_transformers_reading_on_any_text(
    ours: PreTrainedTokenizerBase, reference: PreTrainedTokenizerBase, text: str
) -> None:
    assume(not _digits_decide(text))
    ids = ours.encode(text)  # some control characters have no token: the vocabulary lacks their bytes
    assert ids == reference.encode(text)
    assert ours.decode(ids) == reference.decode(ids)


def test_digits_stand_alone_as_in_the_published_tokenizer(
    ours: PreTrainedTokenizerBase, reference: PreTrainedTokenizerBase
) -> None:
    assert ours.tokenize("a  12") == ["a", "ĠĠ", "1", "2"]
    assert reference.tokenize("a  12") == ["a", "Ġ", "Ġ", "1", "2"], "transformers learnt the split: say so"


def test_special_tokens(ours: PreTrainedTokenizerBase) -> None:
    assert (ours.bos_token, ours.bos_token_id) == ("<|im_start|>", 1)
    assert (ours.eos_token, ours.eos_token_id) == ("<|im_end|>", 2)
    assert (ours.pad_token, ours.pad_token_id) == ("<|im_end|>", 2)
    assert (ours.unk_token, ours.unk_token_id) == ("<|endoftext|>", 0)
    assert len(ours) == 49152
    assert ours.model_max_length == 8192


def test_vocabulary_is_the_same(ours: PreTrainedTokenizerBase, reference: PreTrainedTokenizerBase) -> None:
    assert ours.get_vocab() == reference.get_vocab()
    flags = {index: token.special for index, token in ours.added_tokens_decoder.items()}
    assert flags == dict.fromkeys(range(17), True)


def test_chat_template_is_smollm2s(ours: PreTrainedTokenizerBase, reference: PreTrainedTokenizerBase) -> None:
    assert ours.chat_template == reference.chat_template
    chat = [{"role": "user", "content": "Hi"}]
    assert ours.apply_chat_template(chat, tokenize=False, add_generation_prompt=True) == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )


def test_other_tokenizers_are_refused() -> None:
    with pytest.raises(ValueError, match=r"only .'gpt2', 'smollm'. is read"):
        build_tokenizer({"tokenizer.ggml.model": "llama", "tokenizer.ggml.pre": "default"})


def _digits_decide(text: str) -> bool:
    """True where splitting digits first matters: after two spaces, or a number of several bytes."""
    pairs = zip(" " + text, text, text[1:], strict=False)
    after_spaces = any(
        first.isspace() and second.isspace() and third.isdigit() for first, second, third in pairs
    )
    return after_spaces or any(letter.isnumeric() and not letter.isascii() for letter in text)
