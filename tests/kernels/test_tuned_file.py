"""The files of measured block sizes: written, read back, and refused by name when something is wrong."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tuned_samples import H200, QKV, SMALL, pair, write

from lorikeet.kernels.config import TOKEN_BUCKETS, default_expand_config, default_shrink_config
from lorikeet.kernels.tuned_file import TunedFileError, gpu_folder, read_folder


def test_written_and_read_back(tmp_path: Path) -> None:
    rows = {(QKV, 4): pair(), (QKV, 32): pair(1024), (SMALL, 8192): pair(64, 64)}
    header, found = read_folder(write(tmp_path, "NVIDIA H200", rows))
    assert (header["gpu"], header["capability"], header["driver"]) == ("NVIDIA H200", "9.0", "580.1")
    assert found == {QKV: {4: pair(), 32: pair(1024)}, SMALL: {8192: pair(64, 64)}}


def test_every_default_can_be_written(tmp_path: Path) -> None:
    """The ranges that a file may have hold all that the kernels are handed today."""
    rows = {}
    for rank in (1, 8, 16, 32, 64, 128, 256, 320, 512):
        for k, n in ((4096, (4096, 1024, 1024)), (14336, (4096,)), (77, (33,)), (28672, (8192,))):
            shape = replace(QKV, k=k, n=n, rank=rank)
            for tokens in TOKEN_BUCKETS:
                shrink = default_shrink_config(k, len(n), rank, 8, tokens, H200)
                expand = default_expand_config(n, rank, 8, tokens, shrink.num_splits(k), H200)
                rows[shape, tokens] = (shrink, expand)
    _, found = read_folder(write(tmp_path, "NVIDIA H200", rows))
    assert {(s, t): p for s, by_tokens in found.items() for t, p in by_tokens.items()} == rows


def test_no_drafts_are_left(tmp_path: Path) -> None:
    folder = write(tmp_path, "NVIDIA H200", {(QKV, 4): pair()})
    write(tmp_path, "NVIDIA H200", {(QKV, 16): pair()})
    assert sorted(path.name for path in folder.iterdir()) == ["lora_expand.json", "lora_shrink.json"]
    assert list(read_folder(folder)[1][QKV]) == [16]


@pytest.mark.parametrize(
    ("gpu", "folder"),
    [
        ("NVIDIA H200", "NVIDIA_H200"),
        ("NVIDIA H100 80GB HBM3", "NVIDIA_H100_80GB_HBM3"),
        ("NVIDIA A100-SXM4-80GB", "NVIDIA_A100_SXM4_80GB"),
        ("../../etc", "etc"),
    ],
)
def test_folder_of_a_gpu(gpu: str, folder: str) -> None:
    assert gpu_folder(gpu) == folder


def row(document: dict[str, Any], **changes: Any) -> None:
    document["rows"][0].update(changes)


def config(document: dict[str, Any], **changes: Any) -> None:
    document["rows"][0]["config"].update(changes)


# What is done to a good file, which one, and what is said about it.
BROKEN: dict[str, tuple[str, Callable[[dict[str, Any]], Any], str]] = {
    "schema": ("lora_shrink", lambda d: d.update(schema=2), "schema 2, this version reads 1"),
    "kernel": ("lora_expand", lambda d: d.update(kernel="0"), "kernel version '0', this is '1'"),
    "operator": ("lora_shrink", lambda d: d.update(operator="lora_expand"), "operator 'lora_expand'"),
    "no_gpu": ("lora_shrink", lambda d: d.pop("gpu"), "gpu is None, must be str"),
    "no_driver": ("lora_expand", lambda d: d.pop("driver"), "driver is None"),
    "capability": ("lora_shrink", lambda d: d.update(capability="ninety"), "capability 'ninety'"),
    "other_gpu": ("lora_expand", lambda d: d.update(gpu="NVIDIA H100"), "beside a file of NVIDIA H200"),
    "no_rows": ("lora_shrink", lambda d: d.pop("rows"), "rows is None, must be list"),
    "row_type": ("lora_shrink", lambda d: d.update(rows=[3]), "row 0: got int"),
    "repeated": ("lora_shrink", lambda d: d["rows"].append(d["rows"][0]), "row 1 repeats 4096→"),
    "unpaired": ("lora_expand", lambda d: row(d, num_tokens=16), "not the same rows as lora_shrink.json"),
    "splits": ("lora_expand", lambda d: config(d, num_splits=3), "is for 3 chunks of K"),
    "tokens": ("lora_shrink", lambda d: row(d, num_tokens=5), "num_tokens 5, must be one of (4, 16"),
    "dtype": ("lora_shrink", lambda d: row(d, dtype="float64"), "dtype 'float64'"),
    "k": ("lora_shrink", lambda d: row(d, k="4096"), "k is '4096', must be int"),
    "k_bool": ("lora_shrink", lambda d: row(d, k=True), "k is True, must be int"),
    "rank": ("lora_shrink", lambda d: row(d, rank=0), "sizes must be at least 1"),
    "widths": ("lora_expand", lambda d: row(d, n=[1, 1, 1, 1]), "must be 1 to 3 widths"),
    "config_key": ("lora_shrink", lambda d: config(d, split_k=4), "must have ['block_k'"),
    "kernel_name": ("lora_shrink", lambda d: config(d, kernel="fused"), "kernel 'fused' is none of"),
    "block_m": ("lora_shrink", lambda d: config(d, block_m=48), "block_m 48, must be one of"),
    "block_m_too_small": ("lora_expand", lambda d: config(d, block_m=4), "block sizes below 16"),
    "block_r": ("lora_shrink", lambda d: config(d, block_r=24), "must be powers of two"),
    "block_n": ("lora_expand", lambda d: config(d, block_n=100), "must be powers of two"),
    "chunk": ("lora_shrink", lambda d: config(d, chunk_k=100), "not a multiple of block_k 64"),
    "chunks": ("lora_shrink", lambda d: config(d, block_k=16, chunk_k=16), "more than 64 chunks"),
    "gemv": ("lora_shrink", lambda d: config(d, kernel="gemv"), "the gemv kernel has 4"),
    "warps": ("lora_shrink", lambda d: config(d, num_warps=3), "num_warps 3"),
    "stages": ("lora_expand", lambda d: config(d, num_stages=0), "num_stages 0"),
    "blocks": ("lora_expand", lambda d: config(d, blocks=4), "blocks 4"),
    "pdl": ("lora_expand", lambda d: config(d, pdl=1), "pdl is 1, must be bool"),
}


@pytest.mark.parametrize("problem", BROKEN)
def test_refused_by_name(problem: str, tmp_path: Path) -> None:
    operator, damage, expected = BROKEN[problem]
    path = write(tmp_path, "NVIDIA H200", {(QKV, 4): pair()}) / f"{operator}.json"
    document = json.loads(path.read_text())
    damage(document)
    path.write_text(json.dumps(document))
    with pytest.raises(TunedFileError, match=re.escape(expected)) as caught:
        read_folder(path.parent)
    assert str(path.parent) in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"schema": 1e999}', "\x00"])
def test_what_is_no_file_of_ours_is_refused(text: str, tmp_path: Path) -> None:
    folder = write(tmp_path, "NVIDIA H200", {(QKV, 4): pair()})
    (folder / "lora_expand.json").write_text(text)
    with pytest.raises(TunedFileError, match=r"lora_expand\.json"):
        read_folder(folder)


def test_half_a_folder_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path, "NVIDIA H200", {(QKV, 4): pair()})
    (folder / "lora_expand.json").unlink()
    with pytest.raises(TunedFileError, match=r"lora_expand\.json: cannot be read"):
        read_folder(folder)
