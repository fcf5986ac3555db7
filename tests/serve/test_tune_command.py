"""The command line of `lorikeet tune`, without a GPU."""

import json
from pathlib import Path

import pytest

from lorikeet.serve.tune_command import TuneError, tune_command


def listed(capsys: pytest.CaptureFixture[str], *argv: str) -> list[str]:
    assert tune_command([*argv, "--list"]) == 0
    return capsys.readouterr().out.splitlines()


def adapter(folder: Path, **config) -> None:
    folder.mkdir(parents=True)
    (folder / "adapter_config.json").write_text(json.dumps(config))


def test_cells_of_a_model_of_the_package(capsys):
    lines = listed(capsys, "llama-3.1-8b", "--ranks", "16,64", "--slots", "8,1")
    assert len(lines) == 4 * 2 * 2 * 11  # layers, ranks, slots, buckets
    assert lines[0] == "4096→4096+1024+1024 rank 16 slots 8 bfloat16, 4 tokens"


def test_shards(capsys):
    assert "8192→1024+128+128 rank 16" in "\n".join(listed(capsys, "llama-3.1-70b", "--tp", "8"))


def test_rank_of_adapters(capsys, tmp_path):
    adapter(tmp_path / "a", r=8)
    adapter(tmp_path / "deep" / "b", r=16, rank_pattern={"q_proj": 40})
    assert " rank 64 " in listed(capsys, "qwen3-4b", "--adapters", str(tmp_path))[0]


@pytest.mark.parametrize(
    ("config", "said"),
    [(None, "no adapter_config.json"), ({}, "no rank can be read"), ({"r": 513}, "the most that vLLM takes")],
)
def test_adapters_without_a_rank(config, said, tmp_path):
    if config is not None:
        adapter(tmp_path / "a", **config)
    with pytest.raises(TuneError, match=said):
        tune_command(["qwen3-4b", "--adapters", str(tmp_path), "--list"])


@pytest.mark.parametrize("argv", [["qwen3-4b", "--ranks", "0"], ["qwen3-4b", "--slots", "x"], []])
def test_wrong_commands(argv, capsys):
    with pytest.raises(SystemExit) as ended:
        tune_command(argv)
    assert ended.value.code == 2


def test_check_of_vllms_files_is_refused(tmp_path):
    with pytest.raises(TuneError, match="hold no times"):
        tune_command(["qwen3-4b", "--check", "--stock", "--out", str(tmp_path)])


@pytest.mark.parametrize("flags", [[], ["--check"]])
def test_without_a_gpu(flags, tmp_path):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(TuneError, match="no NVIDIA GPU here"):
        tune_command(["llama-3.1-8b", "--out", str(tmp_path), "--workers", "1", *flags])
    assert not list(tmp_path.rglob("*.json"))
