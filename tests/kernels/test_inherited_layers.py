"""Embeddings and logits on vLLM's own operators: compiled ahead, and skipped where they add nothing."""

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from vllm.lora.layers import LogitsProcessorWithLoRA, LoRAMapping, VocabParallelEmbeddingWithLoRA
from vllm.lora.ops.triton_ops.lora_kernel_metadata import LoRAKernelMeta
from vllm.lora.punica_wrapper import punica_gpu
from vllm.lora.punica_wrapper.punica_gpu import PunicaWrapperGPU

from lorikeet.kernels.inherited_layers import warm_up_inherited, watch_logits
from lorikeet.kernels.punica_wrapper import LorikeetPunicaWrapper

MAX_TOKENS, MAX_ROWS, NUM_SLOTS, RANK, HIDDEN, VOCABULARY = 300, 140, 2, 8, 32, 64
LORA = SimpleNamespace(max_loras=NUM_SLOTS, specialize_active_lora=False)


class Model(torch.nn.Module):
    """The two layers of vLLM, as they are once a model with LoRA is loaded."""

    def __init__(self, wrapper: type[PunicaWrapperGPU]) -> None:
        super().__init__()
        punica_gpu.LoRAKernelMeta = LoRAKernelMeta  # not imported there without a GPU
        self.wrapper = wrapper(MAX_TOKENS, MAX_ROWS, "cpu", lora_config=LORA)
        config = SimpleNamespace(max_lora_rank=RANK, lora_dtype=torch.float16)
        self.embedding = bare(VocabParallelEmbeddingWithLoRA, self.wrapper)
        self.embedding.base_layer = SimpleNamespace(
            org_vocab_size=VOCABULARY, embedding_dim=HIDDEN, weight=torch.zeros(1), num_added_embeddings=0
        )
        self.embedding.create_lora_weights(NUM_SLOTS, config)
        self.logits = bare(LogitsProcessorWithLoRA, self.wrapper)
        self.logits.base_layer = SimpleNamespace(vocab_size=VOCABULARY, head_dtype=torch.float32)
        self.logits.hidden_size, self.logits.device, self.logits.sharded_to_full_mapping = HIDDEN, "cpu", None
        self.logits.create_lora_weights(NUM_SLOTS, config)


def bare(kind: type, wrapper: PunicaWrapperGPU) -> Any:
    layer = kind.__new__(kind)
    torch.nn.Module.__init__(layer)
    layer.punica_wrapper = wrapper
    return layer


Launches = dict[str, list[tuple[torch.Tensor, ...]]]


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> Launches:
    """What vLLM's own operators are called with; they need a GPU."""
    seen: Launches = defaultdict(list)
    for name in ("lora_shrink", "lora_expand"):
        monkeypatch.setattr(
            punica_gpu, name, lambda *args, name=name, **_: seen[name].append(args), raising=False
        )
    return seen


def test_every_kind_of_row_count_is_launched(launches: Launches) -> None:
    assert warm_up_inherited(Model(LorikeetPunicaWrapper), MAX_TOKENS, MAX_ROWS) > 0
    rows = {name: [x.shape[-2] for x, *_ in calls] for name, calls in launches.items()}
    assert max(rows["lora_expand"]) <= MAX_TOKENS
    assert max(rows["lora_shrink"]) <= MAX_ROWS
    for counts, limit in ((rows["lora_shrink"], MAX_ROWS), (rows["lora_expand"], MAX_TOKENS)):
        wanted = {specialisation(count) for count in range(1, limit + 1)}
        assert {specialisation(count) for count in counts} == wanted


def specialisation(num_rows: int) -> tuple[Any, ...]:
    """What Triton and vLLM's default block sizes tell apart."""
    kinds = [(number == 1, number % 16 == 0) for number in (num_rows, num_rows * RANK)]
    return (*kinds, num_rows < 128)


def test_it_computes_nothing_and_leaves_the_step(launches: Launches) -> None:
    model = Model(LorikeetPunicaWrapper)
    model.wrapper.update_metadata(LoRAMapping([7, 7, 0], [7], True), [None, 7], NUM_SLOTS, VOCABULARY)
    before = [meta.active_lora_ids.clone() for meta in metas(model)]
    seen = []
    launches["lora_expand"] = seen_slots(seen)
    warm_up_inherited(model, 20, 20)
    assert seen
    assert all(slots == [-1] * (NUM_SLOTS + 1) for slots in seen)
    for slots, meta in zip(before, metas(model), strict=True):
        assert torch.equal(slots, meta.active_lora_ids)
        assert not meta.no_lora_flag_cpu


def seen_slots(seen: list[list[int]]) -> Any:
    """Notes the slots at the time of the call."""
    return SimpleNamespace(append=lambda args: seen.append(args[7].tolist()))


def metas(model: Model) -> tuple[LoRAKernelMeta, LoRAKernelMeta]:
    return model.wrapper.token_mapping_meta, model.wrapper.prompt_mapping_meta


@pytest.mark.parametrize("adapter", [0, 7, 8], ids=["base", "with", "without"])
def test_logits_are_computed_for_adapters_that_have_them(adapter: int, launches: Launches) -> None:
    model = Model(LorikeetPunicaWrapper)
    watch_logits(model)
    model.logits.set_lora(0, torch.ones(RANK, HIDDEN).half(), torch.ones(VOCABULARY, RANK).half())
    model.logits.reset_lora(1)
    model.wrapper.update_metadata(LoRAMapping([adapter], [adapter], False), [7, 8], NUM_SLOTS, VOCABULARY)
    compute_logits(model)
    assert len(launches["lora_expand"]) == (adapter == 7)


def test_unwatched_logits_are_always_computed(launches: Launches) -> None:
    model = Model(LorikeetPunicaWrapper)
    compute_logits(model)
    assert len(launches["lora_expand"]) == 1


def test_stock_wrappers_are_left_alone(launches: Launches) -> None:
    model = Model(PunicaWrapperGPU)
    watch_logits(model)
    assert warm_up_inherited(model, MAX_TOKENS, MAX_ROWS) == 0
    assert not launches


def compute_logits(model: Model) -> None:
    y, x = torch.zeros(1, VOCABULARY), torch.zeros(1, HIDDEN).half()
    model.wrapper.add_lora_logits(y, x, model.logits.lora_a_stacked, model.logits.lora_b_stacked, 1.0)
