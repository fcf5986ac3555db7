"""Folders of models with a real model's shape and random weights or none, and random adapters for them."""

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

DELTA_STD = 1.0  # of an adapter's output where its input has variance 1, as the base model's


@dataclass(frozen=True)
class Shape:
    """A Llama-like model."""

    hidden: int
    intermediate: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    vocabulary: int
    head_dim: int = 128

    def linears(self) -> dict[str, tuple[int, int]]:
        """(inputs, outputs) of each linear in a layer, by its name there."""
        heads, kv = self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        return {
            "self_attn.q_proj": (self.hidden, heads),
            "self_attn.k_proj": (self.hidden, kv),
            "self_attn.v_proj": (self.hidden, kv),
            "self_attn.o_proj": (heads, self.hidden),
            "mlp.gate_proj": (self.hidden, self.intermediate),
            "mlp.up_proj": (self.hidden, self.intermediate),
            "mlp.down_proj": (self.intermediate, self.hidden),
        }


SHAPES = {
    "llama-8b": Shape(4096, 14336, 32, 32, 8, 128256),
    "phi-4-multimodal": Shape(3072, 8192, 32, 24, 8, 200064),
    "small": Shape(1024, 4096, 8, 8, 4, 4096),
    "tiny": Shape(512, 1024, 2, 4, 2, 4096),
}


def write_model(shape: Shape, folder: Path) -> None:
    """Write the configuration, and a tokenizer whose token number n is the word `tn` from 3 on."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "bfloat16",
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.num_layers,
        "num_attention_heads": shape.num_heads,
        "num_key_value_heads": shape.num_kv_heads,
        "head_dim": shape.head_dim,
        "vocab_size": shape.vocabulary,
        "max_position_embeddings": 8192,
        "rope_theta": 500000.0,
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    (folder / "config.json").write_text(json.dumps(config))
    special = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    words = [*special.values(), *(f"t{number}" for number in range(3, shape.vocabulary))]
    vocabulary = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.Fuse()
    tokenizer.save(str(folder / "tokenizer.json"))
    names = special | {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 8192}
    (folder / "tokenizer_config.json").write_text(json.dumps(names))


def write_weights(shape: Shape, folder: Path) -> None:
    """Write random weights whose logits have a standard deviation of about 2: texts can be compared."""
    generator = torch.Generator().manual_seed(0)

    def normal(rows: int, columns: int, std: float) -> torch.Tensor:
        return (torch.randn(rows, columns, generator=generator) * std).bfloat16()

    one = torch.ones(shape.hidden, dtype=torch.bfloat16)
    tensors = {
        "model.embed_tokens.weight": normal(shape.vocabulary, shape.hidden, 1.0),
        "lm_head.weight": normal(shape.vocabulary, shape.hidden, 2 * shape.hidden**-0.5),
        "model.norm.weight": one.clone(),
    }
    for layer in range(shape.num_layers):
        prefix = f"model.layers.{layer}"
        for name, (inputs, outputs) in shape.linears().items():
            tensors[f"{prefix}.{name}.weight"] = normal(outputs, inputs, inputs**-0.5)
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{prefix}.{name}.weight"] = one.clone()
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def write_adapter(
    shape: Shape,
    rank: int,
    folder: Path,
    seed: int,
    value: float | None = None,
    delta_std: float = DELTA_STD,
) -> None:
    """Write a PEFT adapter on every linear, random, or with B filled with `value`."""
    folder.mkdir(parents=True, exist_ok=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    generator = torch.Generator(device).manual_seed(seed)

    def normal(rows: int, columns: int, std: float) -> torch.Tensor:
        return (torch.randn(rows, columns, generator=generator, device=device) * std).bfloat16().cpu()

    tensors = {}
    for layer in range(shape.num_layers):
        for name, (inputs, outputs) in shape.linears().items():
            prefix = f"base_model.model.model.layers.{layer}.{name}"
            tensors[f"{prefix}.lora_A.weight"] = normal(rank, inputs, inputs**-0.5)
            b = normal(outputs, rank, delta_std * rank**-0.5)
            tensors[f"{prefix}.lora_B.weight"] = b if value is None else torch.full_like(b, value)
    save_file(tensors, folder / "adapter_model.safetensors")
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": None,
        "r": rank,
        "lora_alpha": rank,
        "bias": "none",
        "target_modules": sorted(name.rpartition(".")[2] for name in shape.linears()),
    }
    (folder / "adapter_config.json").write_text(json.dumps(config))
