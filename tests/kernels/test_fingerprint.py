"""The key that keeps compiled graphs of stock vLLM apart from ours."""

import pytest

from lorikeet.kernels import fingerprint as module
from lorikeet.kernels.fingerprint import fingerprint


def test_modes_differ() -> None:
    assert len({fingerprint(mode) for mode in ("auto", "on", "off")}) == 3


@pytest.mark.parametrize("name", ["SCHEMA", "version"])
def test_it_changes_with_what_graphs_depend_on(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint("auto")
    monkeypatch.setattr(module, name, "lora_linear() -> ()" if name == "SCHEMA" else lambda _: "9.9")
    assert fingerprint("auto") != before
    assert fingerprint("off") == "off"
