"""The demo model as adapters' base, and copies of its good adapter."""

import shutil
from pathlib import Path

import bad_adapters
import pytest
from tests_root import ROOT

from lorikeet.serve.adapters.base_model import BaseModel, read_base_model
from lorikeet.serve.demo.smollm2 import DEMO_NAME, prepare


@pytest.fixture(scope="session")
def model_dir() -> Path:
    return prepare(ROOT / ".demo" / DEMO_NAME)


@pytest.fixture(scope="session")
def base(model_dir: Path) -> BaseModel:
    return read_base_model(str(model_dir))


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """A folder with a sound adapter of rank 4, to be changed."""
    return shutil.copytree(bad_adapters.GOOD, tmp_path / "good")
