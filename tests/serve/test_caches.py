"""The folder of caches: chosen or not, damaged, and put aside after failed starts."""

import logging
import os
from pathlib import Path

import pytest

from lorikeet.serve import caches
from lorikeet.serve.caches import (
    cache_environment,
    check_caches,
    damaged,
    failed_starts,
    start_failed,
    start_succeeded,
    usable_folder,
)
from lorikeet.serve.engine_defaults import set_environment
from lorikeet.serve.errors import StartError


@pytest.fixture(autouse=True)
def _log(monkeypatch):
    monkeypatch.setattr(caches.logger, "propagate", True)  # so that caplog sees it


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """Good entries of each kind."""
    for name, content in {
        "vllm/startup_plan/startup_plan_a.json": '{"schema": 1}',
        "vllm/modelinfos/llama.json": '{"hash": "x"}',
        "vllm/torch_compile_cache/torch_aot_compile/a/rank_0_0/model": "binary",
        "triton/AAA/kernel.json": '{"name": "kernel"}',
        "triton/AAA/kernel.cubin": "binary",
        "triton/AAA/lock": "",
        "triton/BBB/kernel.json": '{"name": "kernel"}',
        "triton/BBB/kernel.cubin": "binary",
        "flashinfer/op.so": "binary",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    return tmp_path


def test_every_cache_is_below_the_folder_and_the_operators_own_stay(tmp_path):
    environ = {"TRITON_CACHE_DIR": "/mine"}
    set_environment(environ, tmp_path)
    assert environ["TRITON_CACHE_DIR"] == "/mine"
    assert environ["VLLM_CACHE_ROOT"] == str(tmp_path / "vllm")
    assert all(Path(value).parent == tmp_path for value in cache_environment(tmp_path).values())


def test_good_caches_are_left_alone(filled, caplog):
    assert list(damaged(filled)) == []
    check_caches(filled)
    assert not caplog.records


@pytest.mark.parametrize(
    ("file", "content", "removed"),
    [
        ("vllm/startup_plan/startup_plan_a.json", b'{"sche', "vllm/startup_plan/startup_plan_a.json"),
        ("vllm/startup_plan/startup_plan_a.json", b"[]", "vllm/startup_plan/startup_plan_a.json"),
        ("vllm/modelinfos/llama.json", b"", "vllm/modelinfos/llama.json"),
        ("triton/AAA/kernel.json", b'{"name"', "triton/AAA"),
        ("triton/AAA/kernel.json", b"\xff\xfe", "triton/AAA"),
        ("triton/AAA/kernel.cubin", b"", "triton/AAA"),
    ],
)
def test_a_damaged_entry_goes_with_one_warning(file, content, removed, filled, caplog):
    (filled / file).write_bytes(content)
    check_caches(filled)
    assert not (filled / removed).exists()
    assert (filled / "triton/BBB/kernel.cubin").exists()
    assert len(caplog.records) == 1
    assert removed in caplog.text
    check_caches(filled)
    assert len(caplog.records) == 1


def test_two_failed_starts_put_everything_aside(filled, caplog):
    start_failed(filled)
    check_caches(filled)
    assert (filled / "vllm").exists()
    start_failed(filled)
    check_caches(filled)
    assert not (filled / "vllm").exists()
    assert (filled / "damaged/triton/AAA/kernel.cubin").exists()
    assert len(caplog.records) == 1
    assert failed_starts(filled) == 0


def test_what_was_put_aside_before_is_replaced(filled):
    for content in ("first", "second"):
        (filled / "vllm").mkdir(exist_ok=True)
        (filled / "vllm/file").write_text(content)
        start_failed(filled)
        start_failed(filled)
        check_caches(filled)
    assert (filled / "damaged/vllm/file").read_text() == "second"


def test_a_start_that_succeeds_forgives_one_that_failed(filled):
    start_failed(filled)
    start_succeeded(filled)
    start_failed(filled)
    assert failed_starts(filled) == 1
    check_caches(filled)
    assert (filled / "vllm").exists()


@pytest.mark.parametrize("content", ["", "many", "-"])
def test_a_damaged_count_is_none(content, tmp_path):
    (tmp_path / caches.FAILURES).write_text(content)
    assert failed_starts(tmp_path) == 0


def test_a_folder_that_is_not_there_yet_is_made(tmp_path):
    assert usable_folder(tmp_path / "a/b", chosen=True).is_dir()


def test_one_that_cannot_be_written_ends_the_start_if_it_was_chosen(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StartError, match=r"LORIKEET_CACHE_DIR=.*/file/cache: .* mount a volume"):
        usable_folder(tmp_path / "file/cache", chosen=True)


def test_the_default_gives_way_to_a_temporary_one(tmp_path, caplog):
    (tmp_path / "file").touch()
    with caplog.at_level(logging.WARNING):
        folder = usable_folder(tmp_path / "file/cache", chosen=False)
    assert os.access(folder, os.W_OK)
    assert "LORIKEET_CACHE_DIR" in caplog.text
