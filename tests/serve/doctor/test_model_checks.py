"""The layers that the doctor looks block sizes up for."""

from lorikeet.serve.adapters.base_model import BaseModel, Module
from lorikeet.serve.doctor.model_checks import layers


def base(**modules: tuple[int, int]) -> BaseModel:
    found = {name.replace("__", "."): Module("linear", *sizes) for name, sizes in modules.items()}
    return BaseModel(frozenset(), found, 1e38, True)


LLAMA = {
    f"model__layers__{number}__{name}": sizes
    for number in range(3)
    for name, sizes in {
        "attn__q_proj": (4096, 4096), "attn__k_proj": (4096, 1024), "attn__v_proj": (4096, 1024),
        "attn__o_proj": (4096, 4096), "mlp__gate_proj": (4096, 14336), "mlp__up_proj": (4096, 14336),
        "mlp__down_proj": (14336, 4096),
    }.items()
}  # fmt: skip


def test_joined_as_in_vllm_and_each_kind_once() -> None:
    assert layers(base(**LLAMA, lm_head=(4096, 128256))) == [
        (4096, (4096, 1024, 1024)),
        (4096, (4096,)),
        (4096, (14336, 14336)),
        (14336, (4096,)),
    ]


def test_layers_of_other_names_stand_alone() -> None:
    assert layers(base(h__c_attn=(768, 2304), h__q_proj=(768, 768))) == [(768, (2304,)), (768, (768,))]


def test_a_model_that_nobody_knows_has_none() -> None:
    assert layers(BaseModel(frozenset(), None, 1e38, True)) == []
