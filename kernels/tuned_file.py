"""Measured block sizes on disk: the two files of one GPU, read, checked and written.

`<folder>/<GPU>/lora_shrink.json` and `lora_expand.json` have a row for each shape and bucket of tokens, and
belong together: expand is compiled for the number of chunks that shrink leaves. A folder is taken whole or
refused whole.
"""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from lorikeet.kernels.config import TOKEN_BUCKETS, ExpandConfig, ShrinkConfig
from lorikeet.kernels.matches import OPERATORS
from lorikeet.kernels.shape import LayerShape
from lorikeet.kernels.tile_table import TILE_SIZES

SCHEMA_VERSION = 1
# Of what the configurations mean to the kernels. Raise it when a kernel reads its block sizes differently or
# changes so much that old measurements mislead; files of another version are refused.
KERNEL_VERSION = "1"
DTYPES = ("float16", "bfloat16")
TIMES = ("us", "default_us", "stock_us")
HEADER = ("gpu", "capability", "driver", "torch", "triton", "measured")

Pair = tuple[ShrinkConfig, ExpandConfig]
Rows = dict[LayerShape, dict[int, Pair]]  # shape → bucket of tokens → block sizes


class TunedFileError(ValueError):
    """A file that cannot be used; says which one and why."""


@dataclass(frozen=True)
class Measured:
    """One row's times in µs for shrink and expand together, and the pair they belong to."""

    pair: Pair
    us: float
    default_us: float
    stock_us: float | None = None


def gpu_folder(gpu: str) -> str:
    """The folder's name for a GPU as torch.cuda.get_device_name() gives it. The header decides, not this."""
    return re.sub(r"[^0-9A-Za-z]+", "_", gpu).strip("_")


def read_folder(folder: Path) -> tuple[dict[str, str], Rows]:
    """Header and rows of one GPU's folder.

    Raises:
        TunedFileError: a file is missing, unreadable or says what the kernels can't do.
    """
    header, measured = read_measured(folder)
    rows: Rows = {}
    for (shape, tokens), row in measured.items():
        rows.setdefault(shape, {})[tokens] = row.pair
    return header, rows


def read_measured(folder: Path) -> tuple[dict[str, str], dict[tuple[LayerShape, int], Measured]]:
    """`read_folder` with each row's times."""
    header, shrink = _read(folder / "lora_shrink.json", _shrink_config)
    other, expand = _read(folder / "lora_expand.json", _expand_config)
    path = folder / "lora_expand.json"
    if header["gpu"] != other["gpu"] or header["capability"] != other["capability"]:
        raise TunedFileError(f"{path}: of {other['gpu']}, beside a file of {header['gpu']}; measure again")
    if shrink.keys() != expand.keys():
        differing = min(shrink.keys() ^ expand.keys(), key=str)
        raise TunedFileError(f"{path}: not the same rows as lora_shrink.json ({_key_text(differing)})")
    rows: dict[tuple[LayerShape, int], Measured] = {}
    for (shape, tokens), (shrink_config, times) in shrink.items():
        (expand_config, num_splits), _ = expand[shape, tokens]
        if num_splits != shrink_config.num_splits(shape.k):
            raise TunedFileError(
                f"{path}: {_key_text((shape, tokens))} is for {num_splits} chunks of K, "
                f"lora_shrink.json's makes {shrink_config.num_splits(shape.k)}"
            )
        rows[shape, tokens] = Measured((shrink_config, expand_config), *times)
    return header, rows


def write_folder(
    folder: Path, header: Mapping[str, str], rows: Mapping[tuple[LayerShape, int], Measured]
) -> None:
    """Write both files of one GPU, each replaced at once."""
    folder.mkdir(parents=True, exist_ok=True)
    for operator in OPERATORS:
        lines = []
        for (shape, tokens), measured in sorted(rows.items(), key=lambda item: _sort_key(item[0])):
            shrink, expand = measured.pair
            config = asdict(shrink) if operator == "lora_shrink" else asdict(expand)
            if operator == "lora_expand":
                config["num_splits"] = shrink.num_splits(shape.k)
            times = {name: getattr(measured, name) for name in TIMES}
            key = {"k": shape.k, "n": list(shape.n), "rank": shape.rank, "num_adapters": shape.num_slots}
            row = {**key, "num_tokens": tokens, "dtype": shape.dtype, "config": config}
            lines.append(json.dumps(row | {name: us for name, us in times.items() if us is not None}))
        head = {"schema": SCHEMA_VERSION, "operator": operator, "kernel": KERNEL_VERSION, **header}
        text = json.dumps(head)[:-1] + ', "rows": [\n' + ",\n".join(lines) + "\n]}\n"
        write_atomically(folder / f"{operator}.json", text)


def write_atomically(path: Path, text: str) -> None:
    """Readers see the old file or the new one, never half of it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def _read(
    path: Path, parse_config: Callable[[dict[str, Any], LayerShape], Any]
) -> tuple[dict[str, str], dict[tuple[LayerShape, int], Any]]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise TunedFileError(f"{path}: cannot be read: {exc}") from exc
    try:
        header = _header(document, path.stem)
        rows: dict[tuple[LayerShape, int], Any] = {}
        for number, row in enumerate(_typed(document, "rows", list)):
            key, config, times = _row(row, number, parse_config)
            _require(key not in rows, f"row {number} repeats {_key_text(key)}")
            rows[key] = config, times
    except TunedFileError as exc:
        raise TunedFileError(f"{path}: {exc}") from exc
    return header, rows


def _header(document: Any, operator: str) -> dict[str, str]:
    _require(isinstance(document, dict), f"got {type(document).__name__}, must be an object")
    schema = document.get("schema")
    _require(schema == SCHEMA_VERSION, f"schema {schema!r}, this version reads {SCHEMA_VERSION}")
    _require(document.get("operator") == operator, f"operator {document.get('operator')!r}, not {operator}")
    kernel = document.get("kernel")
    _require(
        kernel == KERNEL_VERSION,
        f"measured for kernel version {kernel!r}, this is {KERNEL_VERSION!r}: measure again",
    )
    header = {name: _typed(document, name, str) for name in HEADER}
    _require(bool(header["gpu"]), "gpu is empty")
    _require(
        re.fullmatch(r"\d+\.\d+", header["capability"]) is not None, f"capability {header['capability']!r}"
    )
    return header


def _row(
    row: Any, number: int, parse_config: Callable[[dict[str, Any], LayerShape], Any]
) -> tuple[tuple[LayerShape, int], Any, tuple[float | None, ...]]:
    try:
        _require(isinstance(row, dict), f"got {type(row).__name__}, must be an object")
        widths = _typed(row, "n", list)
        _require(1 <= len(widths) <= 3 and all(map(_is_size, widths)), f"n {widths}, must be 1 to 3 widths")
        sizes = {name: _typed(row, name, int) for name in ("k", "rank", "num_adapters", "num_tokens")}
        _require(all(map(_is_size, sizes.values())), f"sizes must be at least 1: {sizes}")
        dtype = _typed(row, "dtype", str)
        _require(dtype in DTYPES, f"dtype {dtype!r}, must be one of {', '.join(DTYPES)}")
        tokens = sizes["num_tokens"]
        _require(tokens in TOKEN_BUCKETS, f"num_tokens {tokens}, must be one of {TOKEN_BUCKETS}")
        shape = LayerShape(sizes["k"], tuple(widths), sizes["rank"], sizes["num_adapters"], dtype)
        times = tuple(row.get(name) for name in TIMES)
        _require(all(map(_is_time, times[:2])), f"us and default_us must be numbers above 0: {times[:2]}")
        _require(times[2] is None or _is_time(times[2]), f"stock_us is {times[2]!r}")
        return (shape, tokens), parse_config(_typed(row, "config", dict), shape), times
    except TunedFileError as exc:
        raise TunedFileError(f"row {number}: {exc}") from exc


def _shrink_config(config: dict[str, Any], shape: LayerShape) -> ShrinkConfig:
    values = _values(config, ShrinkConfig)
    kernel = values["kernel"]
    _require(kernel in ("gemv", "swap", "tiled"), f"kernel {kernel!r} is none of shrink's")
    sizes = [values["block_r"], values["block_k"]]
    if kernel == "gemv":
        _require(values["block_m"] == 4, f"block_m {values['block_m']}, the gemv kernel has 4")
        _require(values["chunk_k"] == values["block_k"], "chunk_k must be block_k for the gemv kernel")
    else:
        _require(min(sizes) >= 16 and values["block_m"] >= 16, "block sizes below 16")
    _require(all(map(_is_power_of_two, sizes)), f"block sizes {sizes} must be powers of two")
    _require(
        values["chunk_k"] >= 1 and values["chunk_k"] % values["block_k"] == 0,
        f"chunk_k {values['chunk_k']} is not a multiple of block_k {values['block_k']}",
    )
    _require(-(-shape.k // values["chunk_k"]) <= 64, "more than 64 chunks of K")
    return ShrinkConfig(**values)


def _expand_config(config: dict[str, Any], shape: LayerShape) -> tuple[ExpandConfig, int]:
    num_splits = _typed(config, "num_splits", int)
    values = _values({name: value for name, value in config.items() if name != "num_splits"}, ExpandConfig)
    _require(values["kernel"] in ("swap", "tiled"), f"kernel {values['kernel']!r} is none of expand's")
    sizes = [values["block_n"], values["block_r"]]
    _require(min(sizes) >= 16 and values["block_m"] >= 16, "block sizes below 16")
    _require(all(map(_is_power_of_two, sizes)), f"block sizes {sizes} must be powers of two")
    one_pass = values["kernel"] == "tiled" and shape.rank <= values["block_r"]
    _require(1 <= values["blocks"] <= (16 if one_pass else 1), f"blocks {values['blocks']}")
    return ExpandConfig(**values), num_splits


def _values(config: dict[str, Any], kind: type) -> dict[str, Any]:
    """The fields of a ShrinkConfig or ExpandConfig, with what both have checked."""
    names = {field.name for field in fields(kind)}
    _require(config.keys() == names, f"config has {sorted(config)}, must have {sorted(names)}")
    for name in names - {"kernel", "pdl"}:
        _typed(config, name, int)
    _typed(config, "pdl", bool)
    _require(config["block_m"] in TILE_SIZES, f"block_m {config['block_m']}, must be one of {TILE_SIZES}")
    _require(config["num_warps"] in (1, 2, 4, 8, 16), f"num_warps {config['num_warps']}")
    _require(1 <= config["num_stages"] <= 8, f"num_stages {config['num_stages']}, must be 1 to 8")
    return config


def _typed(document: dict[str, Any], name: str, kind: type) -> Any:
    value = document.get(name)
    is_bool_as_int = kind is int and isinstance(value, bool)
    _require(isinstance(value, kind) and not is_bool_as_int, f"{name} is {value!r}, must be {kind.__name__}")
    return value


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise TunedFileError(problem)


def _is_size(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 1


def _is_time(us: Any) -> bool:
    return isinstance(us, int | float) and not isinstance(us, bool) and us > 0


def _is_power_of_two(number: int) -> bool:
    return number >= 1 and number & (number - 1) == 0


def _key_text(key: tuple[LayerShape, int]) -> str:
    return f"{key[0]} at {key[1]} tokens"


def _sort_key(key: tuple[LayerShape, int]) -> tuple[Any, ...]:
    shape, tokens = key
    return (shape.k, shape.n, shape.dtype, shape.rank, shape.num_slots, tokens)
