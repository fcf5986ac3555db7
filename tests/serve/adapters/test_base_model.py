"""Modules and shapes of small models of many kinds, from their configurations alone."""

import json

import pytest
import transformers

from lorikeet.serve.adapters.base_model import (
    BaseModelError,
    Module,
    describe_base_model,
    model_names,
    read_base_model,
    short_name,
)

SMALL = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "vocab_size": 100, "head_dim": 8, "pad_token_id": 0}  # fmt: skip


def describe(config, architecture: str):
    config.architectures = [architecture]
    return describe_base_model(config, {"owner/Small"}, "bfloat16")


def test_separate_projections():
    base = describe(transformers.LlamaConfig(**SMALL), "LlamaForCausalLM")
    assert base.modules["model.layers.1.self_attn.q_proj"] == Module("linear", 32, 32)
    assert base.modules["model.layers.1.self_attn.k_proj"] == Module("linear", 32, 16)
    assert base.modules["model.layers.1.mlp.down_proj"] == Module("linear", 48, 32)
    assert base.modules["model.embed_tokens"] == Module("embedding", 100, 32)
    assert base.modules["lm_head"] == Module("linear", 32, 100)
    assert not any("norm" in name for name in base.modules)
    assert base.is_whole
    assert base.max_value > 1e38


def test_fused_projections():
    base = describe(transformers.Phi3Config(**SMALL), "Phi3ForCausalLM")
    assert base.modules["model.layers.0.self_attn.qkv_proj"] == Module("linear", 32, 64)
    assert base.modules["model.layers.0.mlp.gate_up_proj"] == Module("linear", 32, 96)


def test_transposed_linears():
    config = transformers.GPT2Config(n_embd=32, n_layer=1, n_head=4, vocab_size=100)
    base = describe(config, "GPT2LMHeadModel")
    assert base.modules["transformer.h.0.attn.c_attn"] == Module("linear", 32, 96)


def test_experts_have_the_names_that_adapters_give_them():
    config = transformers.Qwen3MoeConfig(
        **SMALL, moe_intermediate_size=24, num_experts=3, num_experts_per_tok=2
    )
    base = describe(config, "Qwen3MoeForCausalLM")
    assert base.modules["model.layers.0.mlp.experts.2.gate_proj"] == Module("linear", 32, 24)
    assert base.modules["model.layers.0.mlp.experts.2.down_proj"] == Module("linear", 24, 32)
    assert "model.layers.0.mlp.experts.3.down_proj" not in base.modules
    assert not base.is_whole


def test_a_multimodal_models_language_part_has_its_older_names_too():
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    vision = transformers.CLIPVisionConfig(**sizes, image_size=8, patch_size=4)
    config = transformers.LlavaConfig(text_config=transformers.LlamaConfig(**SMALL), vision_config=vision)
    base = describe(config, "LlavaForConditionalGeneration")
    for prefix in ("model.language_model", "language_model.model", "model"):
        assert base.modules[f"{prefix}.layers.0.self_attn.q_proj"] == Module("linear", 32, 32)
    assert not base.is_whole


def test_a_model_that_transformers_does_not_know_has_no_modules():
    assert describe(transformers.LlamaConfig(**SMALL), "SomebodysForCausalLM").modules is None


def test_what_is_no_model_is_said_in_one_line(tmp_path):
    (tmp_path / "config.json").write_text("{")
    for model in (str(tmp_path), "/no/such/model"):
        with pytest.raises(BaseModelError, match="no base model in") as caught:
            read_base_model(model)
        assert "\n" not in str(caught.value)


def test_names_are_the_last_part_and_the_one_it_was_saved_under(tmp_path):
    assert short_name("Owner/Name-7B/") == "name-7b"
    (tmp_path / "config.json").write_text(json.dumps({"_name_or_path": "Owner/Name-7B"}))
    assert model_names(str(tmp_path)) == {str(tmp_path), "Owner/Name-7B"}
    assert model_names("owner/elsewhere") == {"owner/elsewhere"}
