"""Shapes read from the config.json of every model that the package brings block sizes for."""

from pathlib import Path

import pytest

from lorikeet.kernels.tuner.model_shapes import ModelShapesError, read_model_shapes
from lorikeet.kernels.tuner.stored_shapes import MODELS, package_cells, stored_models

CONFIGS = Path(__file__).parent / "models"


def shapes(names: list[str], tp: int = 1) -> dict[str, list[tuple[int, tuple[int, ...]]]]:
    found = read_model_shapes([str(CONFIGS / f"{name}.json") for name in names], tp)
    return {name: [(layer.k, layer.n) for layer in layers] for name, layers in zip(names, found, strict=True)}


@pytest.mark.slow
def test_stored_shapes_are_what_vllm_builds() -> None:
    stored = stored_models()
    assert shapes(list(MODELS)) == {name: stored[name][1] for name in MODELS}


@pytest.mark.slow
@pytest.mark.parametrize("tp", [2, 8])
def test_shards_of_a_model_on_several_gpus(tp: int) -> None:
    assert shapes(["llama-3.1-70b"], tp) == {"llama-3.1-70b": stored_models()["llama-3.1-70b"][tp]}


@pytest.mark.slow
def test_what_vllm_does_not_know_is_said(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"architectures": ["NobodyForCausalLM"], "model_type": "llama"}')
    with pytest.raises(ModelShapesError, match=f"{tmp_path}.*ValidationError"):
        read_model_shapes([str(tmp_path)])


def test_by_hand() -> None:
    """Grouped attention heads, packed modules and shards, as the models' papers have them."""
    stored = stored_models()
    assert stored["llama-3.1-8b"][1] == [
        (4096, (4096, 1024, 1024)), (4096, (4096,)), (4096, (14336, 14336)), (14336, (4096,)),
    ]  # fmt: skip
    assert stored["llama-3.1-70b"][8] == [
        (8192, (1024, 128, 128)), (1024, (8192,)), (8192, (3584, 3584)), (3584, (8192,)),
    ]  # fmt: skip
    assert stored["phi-4-mini"][1][0] == (3072, (5120,))  # its adapters have one A for q, k and v
    assert stored["gpt-oss-20b"][1][-1] == (2880, (32,))  # the router; experts have kernels of their own


def test_the_set_is_whole_and_in_order_of_value() -> None:
    cells = package_cells()
    assert set(MODELS) == stored_models().keys()
    assert len(cells) == len(set(cells))
    first = cells[: 4 * 2 * 3]  # layers, ranks, decode buckets
    assert {(cell.shape.rank, cell.shape.num_slots) for cell in first} == {(16, 8), (64, 8)}
    assert {(cell.shape.k, cell.shape.n) for cell in first} == set(stored_models()["llama-3.1-8b"][1])
    assert {cell.shape.num_slots for cell in cells} == {1, 4, 8, 16, 32}
    assert {cell.shape.rank for cell in cells if cell.shape.k == 14336} == {8, 16, 32, 64, 128, 256}
    assert {cell.shape.rank for cell in cells if cell.shape.n == (16384,)} == {8, 16, 32, 64, 256, 320}
    seen: dict[object, int] = {}
    for cell in cells:
        assert seen.get(cell.shape, 0) < cell.bucket
        seen[cell.shape] = cell.bucket
