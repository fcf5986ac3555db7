import os

import pytest

from lorikeet.serve.errors import SettingsError
from lorikeet.serve.settings import read_settings


def test_defaults_hold_when_nothing_is_set():
    settings = read_settings()
    assert settings.drain_s == 30
    assert settings.debug is False


def test_the_environment_wins(monkeypatch):
    monkeypatch.setenv("LORIKEET_DRAIN_S", "3.5")
    assert read_settings().drain_s == 3.5


def test_an_unknown_name_is_refused_with_the_known_ones(monkeypatch):
    monkeypatch.setenv("LORIKEET_DRAIN_SECONDS", "3")
    with pytest.raises(
        SettingsError, match=r"unknown setting LORIKEET_DRAIN_SECONDS; known are .*LORIKEET_DRAIN_S"
    ):
        read_settings()


@pytest.mark.parametrize("value", ["soon", "-1"])
def test_a_bad_value_is_refused_by_name(monkeypatch, value):
    monkeypatch.setenv("LORIKEET_DRAIN_S", value)
    with pytest.raises(SettingsError, match=f"LORIKEET_DRAIN_S={value}"):
        read_settings()


def test_settings_cannot_be_changed():
    settings = read_settings()
    with pytest.raises(ValueError, match="frozen"):
        settings.drain_s = 1


@pytest.mark.parametrize("ours", [None, ""])
def test_keys_are_taken_out_of_the_environment_and_vllms_is_one(monkeypatch, ours):
    if ours is not None:
        monkeypatch.setenv("LORIKEET_API_KEY", ours)  # as a compose file does for a variable that isn't set
    monkeypatch.setenv("VLLM_API_KEY", "theirs")
    monkeypatch.setenv("LORIKEET_ADMIN_KEY", "admin")
    settings = read_settings()
    assert settings.api_key.get_secret_value() == "theirs"
    assert settings.admin_key.get_secret_value() == "admin"
    assert not {"VLLM_API_KEY", "LORIKEET_API_KEY", "LORIKEET_ADMIN_KEY"} & set(os.environ)
    assert "theirs" not in repr(settings)


def test_our_key_goes_before_vllms(monkeypatch):
    monkeypatch.setenv("LORIKEET_API_KEY", "ours")
    monkeypatch.setenv("VLLM_API_KEY", "theirs")
    assert read_settings().api_key.get_secret_value() == "ours"


def test_lists_are_split(monkeypatch):
    monkeypatch.setenv("LORIKEET_ADAPTERS", "/a")
    monkeypatch.setenv("LORIKEET_ADAPTER_ROOTS", "/b:/c")
    monkeypatch.setenv("LORIKEET_PINNED_ADAPTERS", "x, y,")
    settings = read_settings()
    assert [str(root) for root in settings.roots] == ["/a", "/b", "/c"]
    assert settings.pinned_names == ("x", "y")
