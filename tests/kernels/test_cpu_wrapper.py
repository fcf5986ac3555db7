"""vLLM's CPU wrapper and ours over rows with and without an adapter, every slot taken."""

import pytest
import torch

NUM_SLOTS, RANK, IN, OUT = 2, 4, 8, 6
SLOTS = [1, -1, 0, -1, 1]  # of each row


@pytest.fixture
def wrappers():
    """(vLLM's, ours), told which slot each row has."""
    from vllm.lora.layers import LoRAMapping
    from vllm.lora.punica_wrapper.punica_cpu import PunicaWrapperCPU

    from lorikeet.kernels.cpu_wrapper import CpuPunicaWrapper

    made = [cls(64, max_batches=8, device="cpu") for cls in (PunicaWrapperCPU, CpuPunicaWrapper)]
    ids = tuple(slot + 1 for slot in SLOTS)  # an adapter's id is its slot's number plus 1; 0 is none
    for wrapper in made:
        wrapper.update_metadata(LoRAMapping(ids, ids, is_prefill=True), [1, 2], NUM_SLOTS, 100)
    return made


def added(wrapper, call: str) -> torch.Tensor:
    torch.manual_seed(0)
    x = torch.randn(len(SLOTS), IN)
    a, b = torch.randn(NUM_SLOTS, 1, RANK, IN), torch.randn(NUM_SLOTS, 1, OUT, RANK)
    y = torch.zeros(len(SLOTS), OUT)
    if call == "linear":
        wrapper.add_lora_linear(y, x, (a,), (b,), 1.0, (OUT,))
    elif call == "logits":
        wrapper.add_lora_logits(y, x, a, b, 1.0)
    else:
        wrapper.add_lora_embedding(y, torch.randn(len(SLOTS), RANK), b)
    return y


@pytest.mark.parametrize("call", ["linear", "logits", "embedding"])
def test_rows_without_an_adapter_stay_and_the_others_are_vllms(wrappers, call):
    theirs, ours = (added(wrapper, call) for wrapper in wrappers)
    has_adapter = torch.tensor(SLOTS) >= 0
    assert torch.equal(ours[has_adapter], theirs[has_adapter])
    assert ours[~has_adapter].abs().max() == 0
    assert ours[has_adapter].abs().min(dim=1).values.max() > 0


def test_vllms_own_still_needs_it(wrappers):
    # When this fails, vLLM has put it right and cpu_wrapper.py can go.
    assert added(wrappers[0], "linear")[1].abs().max() > 0
