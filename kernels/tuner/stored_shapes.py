"""Layer shapes of the models that the package brings block sizes for, and the order to measure them in.

The shapes are what `model_shapes.py` reads from those models' config.json; a test compares them.
"""

import json
from collections.abc import Sequence
from importlib.resources import files

from lorikeet.kernels.config import TOKEN_BUCKETS
from lorikeet.kernels.tuner.cells import DECODE_BUCKETS, Cell, cells_of

Shape = tuple[int, tuple[int, ...]]  # K and widths

RANKS = (16, 64, 32, 8)
SLOTS = (8, 4, 16, 1, 32)
EXTRA_RANKS = {"llama-3.1-8b": (128, 256), "phi-4-mini": (256, 320), "phi-4-multimodal": (256, 320)}
# Most used first. Mistral-7B has Llama-3.1-8B's shapes, Phi-4-mini has Phi-4-multimodal's.
MODELS = (
    "llama-3.1-8b", "qwen3-8b", "llama-3.2-3b", "llama-3.2-1b", "qwen3-4b", "phi-4-multimodal", "mistral-7b",
    "gemma-3-12b", "gpt-oss-20b", "qwen3-32b", "llama-3.1-70b", "phi-4-mini",
)  # fmt: skip


def stored_models() -> dict[str, dict[int, list[Shape]]]:
    """Model → number of GPUs that share it → layers."""
    text = files("lorikeet.kernels.tuner").joinpath("stored_shapes.json").read_text(encoding="utf-8")
    return {
        model: {int(tp): [(k, tuple(n)) for k, n in layers] for tp, layers in by_tp.items()}
        for model, by_tp in json.loads(text).items()
    }


def package_cells() -> list[Cell]:
    """Every cell of the set that the package brings, the most valuable first.

    Decode of the most used model, then of all, each at 8 slots; then prefill; then other slots. A run that is
    stopped has then whole shapes of what matters most.
    """
    stored = stored_models()
    everything = [shape for model in MODELS for layers in stored[model].values() for shape in layers]
    cells = cells_of(stored[MODELS[0]][1], RANKS[:2], SLOTS[:1], DECODE_BUCKETS)
    for buckets, slots in (
        (DECODE_BUCKETS, SLOTS[:1]),
        (TOKEN_BUCKETS, SLOTS[:1]),
        (DECODE_BUCKETS, SLOTS),
        (TOKEN_BUCKETS, SLOTS),
    ):
        cells += cells_of(everything, RANKS[:2], slots, buckets)
        for model, ranks in EXTRA_RANKS.items():
            cells += cells_of(_layers(stored[model]), ranks, slots, buckets)
        cells += cells_of(everything, RANKS[2:], slots, buckets)
    return list(dict.fromkeys(cells))


def _layers(by_tp: dict[int, list[Shape]]) -> Sequence[Shape]:
    return [shape for layers in by_tp.values() for shape in layers]
