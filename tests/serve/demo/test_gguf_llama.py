"""Dequantised weights: bit for bit what transformers' own GGUF loader gives, after rounding to bfloat16."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, PreTrainedModel

from lorikeet.serve.demo.gguf_llama import hugging_face_name, to_bfloat16, unpermute
from lorikeet.serve.demo.smollm2 import find_gguf

pytestmark = pytest.mark.slow

TIED = "lm_head.weight"


@pytest.fixture(scope="module")
def reference() -> PreTrainedModel:
    """transformers' reading of the same file, in fp32."""
    gguf = find_gguf()
    return AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)


def test_every_tensor_equals_transformers_reading(reference: PreTrainedModel, model_dir: Path) -> None:
    ours = load_file(model_dir / "model.safetensors")
    theirs = {name: tensor for name, tensor in reference.state_dict().items() if name != TIED}
    assert ours.keys() == theirs.keys()
    different = [name for name in ours if not torch.equal(ours[name], theirs[name].to(torch.bfloat16))]
    assert different == []


@torch.inference_mode()
def test_logits_agree_with_transformers_reading(reference: PreTrainedModel, model_dir: Path) -> None:
    ours = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32)
    ids = torch.tensor([[1, 4093, 198, 1780, 314, 260, 3575, 282, 4649, 47, 2, 198]])
    got, exact = ours(ids).logits, reference(ids).logits  # [1, num_tokens, vocab]
    # The only difference left is bfloat16 storage.
    assert torch.nn.functional.cosine_similarity(got, exact, dim=-1).min() > 0.999
    rounded = {name: tensor.to(torch.bfloat16) for name, tensor in reference.state_dict().items()}
    reference.load_state_dict(rounded)  # keeps fp32 as its dtype, and the rotary frequencies exact
    torch.testing.assert_close(got, reference(ids).logits, rtol=1e-4, atol=1e-4)


def test_unpermute_undoes_llama_cpp() -> None:
    num_heads, head_dim, hidden = 3, 8, 5
    weight = np.random.default_rng(0).standard_normal((num_heads * head_dim, hidden)).astype(np.float32)
    halves = weight.reshape(num_heads, 2, head_dim // 2, hidden)
    permuted = halves.swapaxes(1, 2).reshape(weight.shape)  # what llama.cpp's converter does
    assert not np.array_equal(permuted, weight)
    np.testing.assert_array_equal(unpermute(permuted, num_heads), weight)


def test_bfloat16_rounds_as_torch_does() -> None:
    rng = np.random.default_rng(0)
    ties = (np.arange(64, dtype=np.uint32) << 16 | 0x3F808000).view(np.float32)
    values = np.concatenate(
        [rng.standard_normal(4096).astype(np.float32), ties, np.float32([0.0, -0.0, 1e-40])]
    )
    expected = torch.from_numpy(values).to(torch.bfloat16).view(torch.uint16).numpy()
    np.testing.assert_array_equal(to_bfloat16(values), expected)


@pytest.mark.parametrize(
    ("gguf_name", "expected"),
    [
        ("token_embd.weight", "model.embed_tokens.weight"),
        ("output_norm.weight", "model.norm.weight"),
        ("blk.29.attn_output.weight", "model.layers.29.self_attn.o_proj.weight"),
        ("blk.0.ffn_norm.weight", "model.layers.0.post_attention_layernorm.weight"),
    ],
)
def test_names(gguf_name: str, expected: str) -> None:
    assert hugging_face_name(gguf_name) == expected
