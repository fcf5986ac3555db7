"""From outcomes to files: whole shapes, and no row that changes nothing."""

from dataclasses import replace
from pathlib import Path

from tuned_samples import H200, HEADER, QKV, pair, write

from lorikeet.kernels.config import TOKEN_BUCKETS
from lorikeet.kernels.tuned import default_pair, load_folders
from lorikeet.kernels.tuned_file import Pair, read_folder
from lorikeet.kernels.tuner.cells import Cell
from lorikeet.kernels.tuner.output import measured_rows, write_outcomes
from lorikeet.kernels.tuner.search import Outcome

HEAD = {"gpu": H200.name, "capability": "9.0", **HEADER, "device": {}}
OTHER = replace(QKV, rank=64)


def outcome(found: Pair) -> Outcome:
    return Outcome(found, 3.0, default_pair(QKV, 4, H200), 4.0)


def outcomes(**by_bucket: Pair) -> dict[Cell, Outcome]:
    return {Cell(QKV, int(name[1:])): outcome(found) for name, found in by_bucket.items()}


def test_rows_that_the_next_match_gives_anyway_are_left_out(tmp_path: Path) -> None:
    default = default_pair(QKV, 64, H200)
    found = outcomes(_4=pair(512), _16=pair(1024), _32=pair(1024), _64=default)
    write_outcomes(tmp_path, HEAD, H200, found)
    assert read_folder(tmp_path / "NVIDIA_H200")[1] == {QKV: {4: pair(512), 32: pair(1024)}}
    configs = load_folders(H200, [tmp_path])
    for cell, result in found.items():
        assert configs.find(QKV, cell.bucket, H200)[0] == result.pair


def test_a_default_stays_where_a_larger_bucket_would_hide_it(tmp_path: Path) -> None:
    found = outcomes(_4=default_pair(QKV, 4, H200), _16=pair(1024))
    write_outcomes(tmp_path, HEAD, H200, found)
    assert load_folders(H200, [tmp_path]).find(QKV, 4, H200) == (default_pair(QKV, 4, H200), "exact")


def test_a_default_stays_where_another_gpu_would_hide_it(tmp_path: Path) -> None:
    write(tmp_path, "NVIDIA H100 PCIe", {(QKV, 4): pair(256)})
    write_outcomes(tmp_path, HEAD, H200, outcomes(_4=default_pair(QKV, 4, H200)))
    assert load_folders(H200, [tmp_path]).find(QKV, 4, H200) == (default_pair(QKV, 4, H200), "exact")


def test_rows_that_more_slots_give_anyway_are_left_out(tmp_path: Path) -> None:
    fewer = replace(QKV, num_slots=4)
    found = {Cell(QKV, 4): outcome(pair(512)), Cell(fewer, 4): outcome(pair(512))}
    write_outcomes(tmp_path, HEAD, H200, found)
    assert read_folder(tmp_path / "NVIDIA_H200")[1] == {QKV: {4: pair(512)}}
    write_outcomes(tmp_path, HEAD, H200, {Cell(fewer, 4): outcome(default_pair(fewer, 4, H200))})
    rows = {QKV: {4: pair(512)}, fewer: {4: default_pair(fewer, 4, H200)}}
    assert read_folder(tmp_path / "NVIDIA_H200")[1] == rows


def test_nothing_beyond_a_bucket_that_is_missing() -> None:
    rows = measured_rows(outcomes(_4=pair(512), _32=pair(1024)))
    assert [bucket for _, bucket in rows] == [4]
    assert measured_rows(outcomes(_16=pair(512))) == {}


def test_shapes_measured_again_are_replaced_whole_and_others_stay(tmp_path: Path) -> None:
    write(tmp_path, H200.name, {(QKV, 8192): pair(256), (OTHER, 4): pair(256)})
    write_outcomes(tmp_path, HEAD, H200, outcomes(_4=pair(512)))
    assert read_folder(tmp_path / "NVIDIA_H200")[1] == {QKV: {4: pair(512)}, OTHER: {4: pair(256)}}


def test_a_bad_file_is_written_anew(tmp_path: Path) -> None:
    (write(tmp_path, H200.name, {(OTHER, 4): pair(256)}) / "lora_shrink.json").write_text("{")
    write_outcomes(tmp_path, HEAD, H200, outcomes(_4=pair(512)))
    assert read_folder(tmp_path / "NVIDIA_H200")[1] == {QKV: {4: pair(512)}}


def test_every_bucket_of_a_whole_shape_is_found_as_measured(tmp_path: Path) -> None:
    found = {
        Cell(QKV, bucket): outcome(pair(512 << (number % 3))) for number, bucket in enumerate(TOKEN_BUCKETS)
    }
    write_outcomes(tmp_path, HEAD, H200, found)
    configs = load_folders(H200, [tmp_path])
    assert all(configs.find(QKV, cell.bucket, H200)[0] == result.pair for cell, result in found.items())
