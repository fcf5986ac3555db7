"""Warm-up launches one of each variant, and nothing later needs another."""

import pytest
import torch

from lorikeet.kernels import lora_linear, warm_up
from lorikeet.kernels.config import ExpandConfig, ShrinkConfig
from lorikeet.kernels.synthetic import make_weights

Choices = set[tuple[ShrinkConfig, ExpandConfig, bool]]


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> Choices:
    """What would be launched, in place of the launches."""
    choices: Choices = set()

    def record(*args: object) -> None:
        add_inputs, shrink, expand = args[-3:]
        choices.add((shrink, expand, add_inputs))  # type: ignore[arg-type]

    monkeypatch.setattr(lora_linear, "lora_slices_with", record)
    return choices


def test_covers_every_number_of_tokens(launched: Choices) -> None:
    layer = make_weights(96, (64, 32), 16, 3, torch.float16, "cpu")
    warm_up.warm_up([layer], 700, [True, False])
    warm = set(launched)
    launched.clear()
    tables = [torch.full((1, 3), -1, dtype=torch.int32)] * 5
    for num_tokens in range(1, 701):
        x, y = torch.empty(num_tokens, 96).half(), torch.empty(num_tokens, 96).half()
        for add in (True, False):
            lora_linear.lora_linear_of(y, x, *layer, tables, torch.zeros(1, dtype=torch.int32), add)
    assert launched == warm


def test_layers_of_one_kind_are_launched_once(launched: Choices) -> None:
    layers = [make_weights(64, (32,), 8, 2, torch.float16, "cpu") for _ in range(3)]
    buckets = len(warm_up.bucket_sizes(100))
    assert warm_up.warm_up(layers, 100, [True]) == buckets
    assert (
        warm_up.warm_up([*layers, make_weights(64, (48,), 8, 2, torch.float16, "cpu")], 100, [True])
        == 2 * buckets
    )


def test_real_launches_need_no_tokens_with_adapter(device: str) -> None:
    layer = make_weights(64, (32, 16), 16, 2, torch.float16, device)
    assert warm_up.warm_up([layer], 300, [True, False]) > 0


def test_launches_are_not_counted_as_calls(device: str) -> None:
    calls = lora_linear.calls["lora_linear"]
    warm_up.warm_up([make_weights(64, (32,), 16, 2, torch.float16, device)], 4, [True])
    assert lora_linear.calls["lora_linear"] == calls
