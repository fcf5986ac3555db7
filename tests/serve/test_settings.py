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
