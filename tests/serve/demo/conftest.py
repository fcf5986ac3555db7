"""The prepared demo model, shared by the tests of this folder and kept between runs."""

import os
from pathlib import Path

import pytest

from lorikeet.serve.demo.smollm2 import DEMO_NAME, prepare

_ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def model_dir() -> Path:
    """LORIKEET_TEST_MODEL if set, else .demo/ in the repository, which git ignores; made once, in ~9 s."""
    named = os.environ.get("LORIKEET_TEST_MODEL")
    return prepare(Path(named) if named else _ROOT / ".demo" / DEMO_NAME)
