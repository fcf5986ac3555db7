"""Leaves out what this machine can't run, and says why; marks the tests that start a server."""

from pathlib import Path

import hypothesis
import pytest

hypothesis.settings.register_profile("lorikeet", deadline=None)  # a busy machine is no failure
hypothesis.settings.load_profile("lorikeet")
pytest_plugins = ["live_server"]
NO_GPU = pytest.mark.skip(reason="no NVIDIA GPU on this machine")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    has_gpu = Path("/dev/nvidiactl").exists()
    for item in items:
        if "launch" in getattr(item, "fixturenames", ()):
            item.add_marker("server")
        if item.get_closest_marker("gpu") and not has_gpu:
            item.add_marker(NO_GPU)
    items.sort(key=_builds_images)  # keeps the order otherwise


def _builds_images(item: pytest.Item) -> bool:
    """Last, since CI builds the image while the others run."""
    return item.get_closest_marker("docker") is not None
