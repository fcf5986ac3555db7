"""Leaves out what this machine can't run, and says why."""

from pathlib import Path

import pytest

NO_GPU = pytest.mark.skip(reason="no NVIDIA GPU on this machine")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if Path("/dev/nvidiactl").exists():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(NO_GPU)
