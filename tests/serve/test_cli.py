"""The console script, as a process: what ends before vLLM is imported."""

import subprocess
import sys
from pathlib import Path

import pytest


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    script = Path(sys.executable).with_name("lorikeet")
    return subprocess.run([script, *arguments], capture_output=True, text=True, timeout=20, check=False)


def test_help_is_printed_and_0():
    answer = run("--help")
    assert answer.returncode == 0
    assert "lorikeet serve MODEL" in answer.stdout


@pytest.mark.parametrize("arguments", [["fly"], ["-x"]])
def test_an_unknown_command_is_2_with_the_usage(arguments):
    answer = run(*arguments)
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert "usage:" in answer.stderr


def test_a_folder_without_a_model_is_refused_in_one_line(tmp_path):
    answer = run("serve", str(tmp_path))
    assert answer.returncode == 1
    assert answer.stderr.splitlines() == [
        f"lorikeet: no model in {tmp_path}: it has no config.json; name the folder that holds the weights"
    ]
