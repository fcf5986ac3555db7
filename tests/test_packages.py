"""How the folders are packaged."""

import importlib.metadata
import importlib.util
import subprocess
import sys

import pytest


@pytest.mark.parametrize("name", ["serve", "kernels", "tuned_configs"])
def test_our_folders_are_no_top_level_packages(name):
    assert importlib.util.find_spec(name) is None


def test_the_plugin_is_named_for_vllm():
    entry_points = importlib.metadata.entry_points(group="vllm.general_plugins")
    assert entry_points["lorikeet"].value == "lorikeet.kernels.vllm_plugin:install"


def test_importing_the_command_line_imports_no_engine():
    code = (
        "import sys, lorikeet.serve.cli; print([m for m in ('torch', 'vllm', 'fastapi') if m in sys.modules])"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )
