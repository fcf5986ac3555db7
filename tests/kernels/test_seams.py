"""Seams against the installed vLLM, and against copies of it that are deliberately changed."""

import types
from typing import Any

import pytest

from lorikeet.kernels.seams import EXPECTED, check_seams, find


def test_installed_vllm_fits() -> None:
    assert [seam for seam in check_seams() if not seam.ok] == []


@pytest.mark.parametrize("changed", EXPECTED)
def test_a_changed_seam_is_found(changed: str) -> None:
    path, _, aspect = changed.partition("#")

    def resolve(wanted: str) -> Any:
        target = find(wanted)
        return change(target, aspect) if wanted == path else target

    broken = [seam.name for seam in check_seams(resolve=resolve) if not seam.ok]
    assert changed in broken
    assert all(name.partition("#")[0] == path for name in broken)


def change(target: Any, aspect: str) -> Any:
    """A copy whose signature, fields or body differ in one name."""
    if aspect == "fields":
        fewer = dict(list(target.__dataclass_fields__.items())[1:])
        return type("Changed", (target,), {"__dataclass_fields__": fewer})
    if aspect == "uses":
        code = target.__code__
        names = tuple(f"{name}_renamed" for name in code.co_names)
        return types.FunctionType(code.replace(co_names=names), target.__globals__)

    def changed(self: Any, one_more: Any) -> None:
        raise NotImplementedError

    return changed


@pytest.mark.parametrize("gone", list(EXPECTED)[:3])
def test_a_missing_seam_is_found(gone: str) -> None:
    def resolve(wanted: str) -> Any:
        if wanted == gone:
            raise AttributeError(f"no {wanted}")
        return find(wanted)

    seam = next(seam for seam in check_seams(resolve=resolve) if seam.name == gone)
    assert not seam.ok
    assert seam.got.startswith("missing")
