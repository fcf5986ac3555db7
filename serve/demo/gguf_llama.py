"""Read a Llama model from a GGUF file and write its tensors the way Hugging Face names them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader, ReaderTensor
from gguf.quants import dequantize
from numpy.typing import NDArray

_TOP_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


@dataclass(frozen=True)
class GgufLlama:
    """An open GGUF file: its metadata, the Hugging Face config it implies, its tensors by GGUF name."""

    metadata: dict[str, Any]
    config: dict[str, Any]
    tensors: dict[str, ReaderTensor]


def read_llama(path: Path) -> GgufLlama:
    """Open `path`; the tensors stay memory-mapped and quantised."""
    reader = GGUFReader(path)
    metadata = {name: field.contents() for name, field in reader.fields.items()}
    if metadata["general.architecture"] != "llama":
        raise ValueError(f"{path}: architecture {metadata['general.architecture']!r}, only 'llama' is read")
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    return GgufLlama(metadata, _config(metadata, is_tied="output.weight" not in tensors), tensors)


def write_safetensors(llama: GgufLlama, path: Path) -> None:
    """Write every tensor, in bfloat16, to one safetensors file; one tensor at a time is in memory."""
    header = _safetensors_header(llama.tensors.values())
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little"))
        file.write(header)
        for tensor in llama.tensors.values():
            file.write(to_bfloat16(_weight(tensor, llama.config)).tobytes())


def hugging_face_name(name: str) -> str:
    """`blk.3.attn_q.weight` → `model.layers.3.self_attn.q_proj.weight`."""
    if name in _TOP_NAMES:
        return _TOP_NAMES[name]
    _, layer, module, kind = name.split(".")
    return f"model.layers.{layer}.{_LAYER_NAMES[module]}.{kind}"


def unpermute(weight: NDArray[np.float32], num_heads: int) -> NDArray[np.float32]:
    """Undo llama.cpp's row order of q and k: rotary pairs side by side → first halves, then second halves.

    `weight` is [num_heads * head_dim, hidden]; within a head, row 2i+j goes to row j*head_dim/2 + i.
    """
    rows, hidden = weight.shape
    pairs = weight.reshape(num_heads, rows // num_heads // 2, 2, hidden)
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(rows, hidden)


def to_bfloat16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The bfloat16 bits of finite fp32 `values`, rounded to nearest, ties to even as torch does."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def _safetensors_header(tensors: Iterable[ReaderTensor]) -> bytes:
    """Names, shapes and byte ranges as JSON, padded to a multiple of 8 as the format asks."""
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for tensor in tensors:
        shape = [int(size) for size in reversed(tensor.shape)]  # GGUF lists the fastest dimension first
        start, end = end, end + 2 * int(tensor.n_elements)
        entry = {"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}
        entries[hugging_face_name(tensor.name)] = entry
    text = json.dumps(entries).encode()
    return text + b" " * (-len(text) % 8)


def _weight(tensor: ReaderTensor, config: dict[str, Any]) -> NDArray[np.float32]:
    """`tensor` in fp32 with its rows in Hugging Face's order, [rows, columns] or [columns]."""
    values: NDArray[np.float32] = dequantize(tensor.data, tensor.tensor_type)
    if tensor.name.endswith("attn_q.weight"):
        return unpermute(values, config["num_attention_heads"])
    if tensor.name.endswith("attn_k.weight"):
        return unpermute(values, config["num_key_value_heads"])
    return values


def _config(metadata: dict[str, Any], *, is_tied: bool) -> dict[str, Any]:
    hidden_size = metadata["llama.embedding_length"]
    num_heads = metadata["llama.attention.head_count"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "bfloat16",
        "hidden_size": hidden_size,
        "intermediate_size": metadata["llama.feed_forward_length"],
        "num_hidden_layers": metadata["llama.block_count"],
        "num_attention_heads": num_heads,
        "num_key_value_heads": metadata["llama.attention.head_count_kv"],
        "head_dim": hidden_size // num_heads,
        "max_position_embeddings": metadata["llama.context_length"],
        "rope_theta": metadata["llama.rope.freq_base"],
        "rms_norm_eps": float(f"{metadata['llama.attention.layer_norm_rms_epsilon']:.4g}"),  # stored as fp32
        "vocab_size": metadata["llama.vocab_size"],
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": is_tied,
        "bos_token_id": metadata["tokenizer.ggml.bos_token_id"],
        "eos_token_id": metadata["tokenizer.ggml.eos_token_id"],
        "pad_token_id": metadata["tokenizer.ggml.padding_token_id"],
    }
