import json
import time
from dataclasses import replace

import bad_adapters
import pytest
import torch
from bad_adapters import CASES, CONFIG, WEIGHTS, Case, config, make
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lorikeet.serve.adapters.base_model import Module
from lorikeet.serve.adapters.preflight import Limits, preflight
from lorikeet.serve.adapters.report import Report
from lorikeet.serve.demo.adapter_paths import adapter_paths

LIMITS = Limits(max_rank=16)
MANY = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize(("name", "rank"), [("json", 4), ("pirate", 8)])
def test_the_demo_adapters_are_sound_without_a_warning(base, name, rank):
    report = preflight(adapter_paths()[name], base, LIMITS)
    assert report.is_sound, report.text(name)
    assert report.warnings == ()
    assert report.rank == rank
    assert report.num_tensors == 2 * report.num_modules > 0


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_bad_adapter_is_refused_for_its_reason_within_a_second(base, tmp_path, case):
    folder = make(case, tmp_path)
    begin = time.monotonic()
    report = preflight(folder, base, LIMITS)
    assert time.monotonic() - begin < 1
    assert case.reason in {problem.reason for problem in report.problems}, report.text(case.name)
    line = report.refusal(case.name)
    assert case.name in line
    assert "; " in line  # what to do
    assert "\n" not in line
    assert len(line) < 500


def test_there_are_thirty_kinds_at_least():
    assert len({case.name for case in CASES}) >= 30


def test_a_rank_below_vllms_smallest_and_at_the_limit_pass(base, good):
    assert preflight(good, base, Limits(max_rank=4)).is_sound
    assert not preflight(good, base, Limits(max_rank=3)).is_sound


def test_rslora_and_patterns_that_fit_their_tensors_pass(base, good):
    config(use_rslora=True, rank_pattern={"q_proj": 4}, alpha_pattern={r"layers\.1\.self_attn\.k_proj": 2})(
        good
    )
    assert preflight(good, base, LIMITS).is_sound


def test_another_base_is_a_warning_or_a_refusal_by_setting(base, good):
    config(base_model_name_or_path="meta/other-7b")(good)
    report = preflight(good, base, LIMITS)
    assert report.is_sound
    assert "meta/other-7b" in report.warnings[0]
    assert not preflight(good, base, replace(LIMITS, strict_base=True)).is_sound


def test_a_file_above_the_size_limit_is_refused_unread(base, good):
    report = preflight(good, base, Limits(max_bytes=1000))
    assert [problem.reason for problem in report.problems] == ["size"]
    assert report.num_tensors == 0


def test_values_that_the_served_type_cannot_hold_are_refused(base, good):
    bad_adapters.with_value(1e6)(good)
    half = replace(base, max_value=float(torch.finfo(torch.float16).max))
    assert preflight(good, base, LIMITS).is_sound
    assert [problem.reason for problem in preflight(good, half, LIMITS).problems] == ["values"]


def test_an_adapter_of_zeros_is_a_warning(base, good):
    bad_adapters.each(lambda name, tensor: tensor * 0)(good)
    report = preflight(good, base, LIMITS)
    assert report.is_sound
    assert "zero" in report.warnings[0]


def test_fused_and_embedding_modules_are_checked_by_their_own_shapes(tmp_path):
    from safetensors.torch import save_file

    modules = {
        "model.layers.0.self_attn.qkv_proj": Module("linear", 8, 24),
        "model.layers.0.mlp.gate_up_proj": Module("linear", 8, 32),
        "model.embed_tokens": Module("embedding", 50, 8),
    }
    base = type("Base", (), {})
    from lorikeet.serve.adapters.base_model import BaseModel

    base = BaseModel(frozenset({"fused"}), modules, 1e30, True)
    values = {"r": 2, "lora_alpha": 2, "target_modules": ["qkv_proj", "gate_up_proj", "embed_tokens"]}
    (tmp_path / CONFIG).write_text(json.dumps(values))
    tensors = {"base_model.model.model.embed_tokens.lora_embedding_A": torch.ones(2, 50),
               "base_model.model.model.embed_tokens.lora_embedding_B": torch.ones(8, 2),
               "base_model.model.model.embed_tokens.base_layer.weight": torch.ones(50, 8)}  # fmt: skip
    for name in ("self_attn.qkv_proj", "mlp.gate_up_proj"):
        module = modules[f"model.layers.0.{name}"]
        tensors[f"base_model.model.model.layers.0.{name}.lora_A.weight"] = torch.ones(2, module.in_size)
        tensors[f"base_model.model.model.layers.0.{name}.lora_B.weight"] = torch.ones(module.out_size, 2)
    save_file(tensors, tmp_path / WEIGHTS)
    report = preflight(tmp_path, base, LIMITS)
    assert report.is_sound, report.text("fused")
    assert "left out" in report.warnings[0]
    name = "base_model.model.model.layers.0.self_attn.qkv_proj.lora_B.weight"
    save_file({**tensors, name: torch.ones(23, 2)}, tmp_path / WEIGHTS)
    assert [problem.reason for problem in preflight(tmp_path, base, LIMITS).problems] == ["shapes"]


def test_without_a_base_the_rest_is_checked(good, tmp_path):
    assert preflight(good, None, LIMITS).is_sound
    shapes = Case("ranks", "shapes", config(r=8))
    assert not preflight(make(shapes, tmp_path), None, LIMITS).is_sound


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=10,
)


@MANY
@given(content=st.binary(max_size=200))
def test_any_bytes_as_weights_are_a_report(base, good, content):
    (good / WEIGHTS).write_bytes(content)
    assert not preflight(good, base, LIMITS).is_sound


@MANY
@given(content=st.binary(max_size=200))
def test_any_bytes_as_configuration_are_a_report(base, good, content):
    (good / CONFIG).write_bytes(content)
    assert not preflight(good, base, LIMITS).is_sound


@MANY
@given(data=st.data())
def test_any_value_in_the_configuration_is_a_report(base, good, data):
    values = json.loads((bad_adapters.GOOD / CONFIG).read_text())
    name = data.draw(st.sampled_from(sorted(values)))
    values[name] = data.draw(json_values)
    (good / CONFIG).write_text(json.dumps(values))
    report = preflight(good, base, LIMITS)
    assert isinstance(report, Report)
    assert isinstance(report.text("any"), str)


@MANY
@given(header=st.dictionaries(st.text(max_size=30), json_values, max_size=4), tail=st.binary(max_size=64))
def test_any_header_is_a_report(base, good, header, tail):
    text = json.dumps(header).encode()
    (good / WEIGHTS).write_bytes(len(text).to_bytes(8, "little") + text + tail)
    assert not preflight(good, base, LIMITS).is_sound


@MANY
@given(place=st.floats(0, 1), value=st.integers(0, 255))
def test_one_changed_byte_is_a_report(base, good, place, value):
    content = bytearray((bad_adapters.GOOD / WEIGHTS).read_bytes())
    content[int(place * 12_000)] = value  # in and just behind the header
    (good / WEIGHTS).write_bytes(content)
    assert isinstance(preflight(good, base, LIMITS).document(), dict)
