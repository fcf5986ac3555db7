"""Which block sizes a layer gets: measured ones, the most exact first, or the defaults.

A pure function of the files, the GPU and the shape: nothing that a client sends enters. It runs behind the
operator's own cache, once for each shape and bucket. Compiled graphs call the operator without knowing its
block sizes, which are chosen inside it, so our fingerprint in vLLM's cache keys leaves them out.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path

from lorikeet.kernels.config import (
    TOKEN_BUCKETS,
    Device,
    default_expand_config,
    default_shrink_config,
    token_bucket,
)
from lorikeet.kernels.matches import Match
from lorikeet.kernels.shape import LayerShape
from lorikeet.kernels.tuned_file import Pair, Rows, TunedFileError, read_folder

CACHE_SUBFOLDER = "tuned"  # of the cache volume: what was measured where it is served
Table = Mapping[LayerShape, Mapping[int, Pair]]
_logger = logging.getLogger("vllm.lorikeet")


@dataclass(frozen=True)
class TunedConfigs:
    """What was measured on this GPU and on others of its capability; the empty one has defaults only."""

    own: Table = field(default_factory=dict)
    others: tuple[Table, ...] = ()  # in order of the GPUs' names
    refused: tuple[str, ...] = ()  # why each file that could not be used was refused

    def find(self, shape: LayerShape, num_tokens: int, device: Device) -> tuple[Pair, Match]:
        """Block sizes for the bucket of `num_tokens`, and how they were found. Raises nothing."""
        tokens = token_bucket(num_tokens)
        if (found := _nearest(self.own, shape, tokens)) is not None:
            match: Match = "exact" if found == (shape, tokens) else "bucket"
            return _fit(self.own[found[0]][found[1]], shape, device), match
        for other in self.others:
            if (found := _nearest(other, shape, tokens)) is not None:
                return _fit(other[found[0]][found[1]], shape, device), "capability"
        return default_pair(shape, tokens, device), "default"


def default_pair(shape: LayerShape, tokens: int, device: Device) -> Pair:
    """Block sizes where nothing was measured."""
    shrink = default_shrink_config(shape.k, len(shape.n), shape.rank, shape.num_slots, tokens, device)
    num_splits = shrink.num_splits(shape.k)
    return shrink, default_expand_config(shape.n, shape.rank, shape.num_slots, tokens, num_splits, device)


def load_tuned(device: Device, cache_folder: Path | None = None) -> TunedConfigs:
    """The files of the package and of `cache_folder`/tuned, for this GPU.

    A shape that the cache has is taken from there, all its buckets. A bad file is refused with one warning.
    """
    folders = [Path(str(files("lorikeet.tuned_configs")))]
    if cache_folder is not None:
        folders.append(cache_folder / CACHE_SUBFOLDER)
    return load_folders(device, folders)


def load_folders(device: Device, folders: Iterable[Path]) -> TunedConfigs:
    """`load_tuned` for given folders; of two that have a shape, the later one has it."""
    by_gpu: dict[str, Rows] = {}
    refused = []
    for folder in folders:
        for gpu_folder in sorted(path for path in folder.glob("*") if (path / "lora_shrink.json").is_file()):
            try:
                header, rows = read_folder(gpu_folder)
            except TunedFileError as exc:
                refused.append(str(exc))
                _logger.warning("Tuned LoRA block sizes are not used: %s", exc)
                continue
            if header["capability"] == "{}.{}".format(*device.capability):
                by_gpu[header["gpu"]] = by_gpu.get(header["gpu"], {}) | rows
    own = by_gpu.pop(device.name, {})
    return TunedConfigs(own, tuple(by_gpu[gpu] for gpu in sorted(by_gpu)), tuple(refused))


def _nearest(rows: Table, shape: LayerShape, tokens: int) -> tuple[LayerShape, int] | None:
    """The shape and the bucket of the row to use: the same ones, or else the next larger that have a row.

    `--max-loras` may be any number, so a shape may be one with more slots, once its own has no bucket left.
    """
    buckets = [bucket for bucket in TOKEN_BUCKETS if bucket >= tokens]
    shapes = sorted((other for other in rows if _has_room_for(other, shape)), key=lambda s: s.num_slots)
    return next(((s, bucket) for s in shapes for bucket in buckets if bucket in rows[s]), None)


def _has_room_for(other: LayerShape, shape: LayerShape) -> bool:
    layer = (shape.k, shape.n, shape.rank, shape.dtype)
    return layer == (other.k, other.n, other.rank, other.dtype) and other.num_slots >= shape.num_slots


def _fit(pair: Pair, shape: LayerShape, device: Device) -> Pair:
    """The pair within what this GPU has."""
    shrink = pair[0].fit(len(shape.n), device.shared_bytes)
    expand = pair[1].fit(shape.rank, shrink.num_splits(shape.k), device.shared_bytes)
    if device.dependent_launch:
        return shrink, expand
    return replace(shrink, pdl=False), replace(expand, pdl=False)
