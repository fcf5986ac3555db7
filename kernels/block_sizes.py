"""What a worker does about block sizes before vLLM traces the model: read, agree with all ranks, report."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from lorikeet.kernels.config import Device
from lorikeet.kernels.coverage import Coverage, count_matches, coverage, coverage_table
from lorikeet.kernels.journal import Journal
from lorikeet.kernels.matches import CHOSEN
from lorikeet.kernels.shape import LayerShape, launch_shapes
from lorikeet.kernels.tuned import CACHE_SUBFOLDER, TunedConfigs, load_tuned

Layer = tuple[Sequence[torch.Tensor], Sequence[torch.Tensor]]
Tune = Callable[[list[LayerShape], int, Path], str]  # (shapes, most tokens, folder) → what happened
_logger = logging.getLogger("vllm.lorikeet")


def settle_block_sizes(
    layers: Sequence[Layer],
    max_tokens: int,
    cache_folder: Path | None,
    share: Callable[[TunedConfigs], TunedConfigs],
    journal: Journal,
    is_first_rank: bool = True,
    tune: Tune | None = None,
    ignore_measured: bool = False,
) -> None:
    """Choose block sizes by the files, the same on every rank: `share` returns what the first rank gave.

    With `tune` the first rank measures shapes that this GPU has no files for, before it reads them, while the
    others wait in `share`. With `ignore_measured` no file is read. Nothing happens where no layer is ours.
    """
    if not layers:
        return
    from lorikeet.kernels.lora_linear import device_of, use_tuned  # imports Triton

    device = device_of(layers[0][0][0].device)
    shapes = shapes_of(layers)
    tuned = TunedConfigs() if ignore_measured else load_tuned(device, cache_folder)
    missing = [shape for shape in shapes if shape not in tuned.own]
    if tune is not None and is_first_rank and missing and cache_folder is not None:
        with journal.phase("lora_tune", shapes=len(missing)):
            _logger.info(
                "Tuning LoRA block sizes: %s", tune(missing, max_tokens, cache_folder / CACHE_SUBFOLDER)
            )
        tuned = load_tuned(device, cache_folder)
    tuned = share(tuned)
    use_tuned(tuned)
    _report(coverage(shapes, max_tokens, device, tuned), device, tuned, journal, is_first_rank)


def shapes_of(layers: Sequence[Layer]) -> list[LayerShape]:
    """The shapes that these layers are launched in, each once."""
    from lorikeet.kernels.device import MAX_SLICES  # imports Triton

    shapes = [
        shape
        for lora_a, lora_b in layers
        for shape in launch_shapes(
            lora_a[0].shape[3],
            tuple(b.shape[2] for b in lora_b),
            lora_a[0].shape[2],
            lora_a[0].shape[0],
            str(lora_a[0].dtype).removeprefix("torch."),
            MAX_SLICES,
        )
    ]
    return list(dict.fromkeys(shapes))


def _report(
    covered: list[Coverage], device: Device, tuned: TunedConfigs, journal: Journal, is_first_rank: bool
) -> None:
    matches = count_matches(covered)
    rows = [{"shape": str(row.shape), "matches": row.matches} for row in covered]
    journal.write("note", CHOSEN, gpu=device.name, matches=matches, refused=len(tuned.refused), coverage=rows)
    if not is_first_rank:
        return
    _logger.info(
        "LoRA block sizes on %s: how they are found, by shape and tokens\n%s",
        device.name or "this device",
        coverage_table(covered),
    )
    if matches.keys() == {"default"}:
        _logger.info(
            "No LoRA block sizes were measured for these shapes on this GPU: the defaults are used. "
            "`lorikeet tune MODEL` measures them, LORIKEET_TUNE=startup does at the next start"
        )
