import hashlib
import json

import pytest
from pydantic import SecretStr

from lorikeet.serve.errors import SettingsError
from lorikeet.serve.keys import Keys

ADMIN, CLIENT, OTHER = "admin-key-1234", "client-key-1234", "other-key-1234"


def sha256(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def write(file, *keys) -> None:
    file.write_text(json.dumps({"keys": list(keys)}))


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "keys.json"
    write(file, {"name": "team", "sha256": sha256(OTHER), "adapters": ["legal"], "requests_per_minute": 5})
    return file


@pytest.fixture
def keys(file):
    return Keys(SecretStr(CLIENT), SecretStr(ADMIN), file)


def bearer(key: str):
    return [(b"authorization", b"Bearer " + key.encode())]


def test_each_key_is_found_with_its_rights(keys):
    assert not keys.find(bearer(CLIENT)).is_admin
    assert keys.find(bearer(ADMIN)).is_admin
    found = keys.find([(b"x-api-key", OTHER.encode())])
    assert (found.name, found.adapters, found.requests_per_minute) == ("team", {"legal"}, 5)
    assert keys.are_needed
    assert keys.has_admin


@pytest.mark.parametrize(
    "headers",
    [
        [],
        bearer(""),
        bearer("wrong"),
        bearer(CLIENT[:-1]),
        bearer(CLIENT + "x"),
        bearer(sha256(CLIENT)),
        [(b"authorization", CLIENT.encode())],
        [(b"authorization", b"Basic " + CLIENT.encode())],
        [(b"authorization", b"bearer")],
        [(b"cookie", CLIENT.encode())],
        [*bearer("wrong"), *bearer(CLIENT)],
        [*bearer(CLIENT), (b"x-api-key", CLIENT.encode())],
    ],
)
def test_anything_else_is_nobody(keys, headers):
    assert keys.find(headers) is None


def test_without_keys_none_is_needed_and_there_is_no_admin():
    keys = Keys(None, None, None)
    assert not keys.are_needed
    assert not keys.has_admin
    assert keys.find(bearer("")) is None


def test_an_admin_key_alone_leaves_clients_open(file):
    assert not Keys(None, SecretStr(ADMIN), None).are_needed


def test_a_file_without_keys_lets_nobody_in(file):
    write(file)
    assert Keys(None, None, file).are_needed


def test_keys_rotate_without_a_restart(keys, file):
    new = "brand-new-key-1234"
    write(file, {"name": "team", "sha256": sha256(OTHER)}, {"name": "next", "sha256": sha256(new)})
    keys.refresh()
    assert keys.find(bearer(OTHER))
    assert keys.find(bearer(new)).name == "next"
    write(file, {"name": "next", "sha256": sha256(new), "admin": True})
    keys.refresh()
    assert keys.find(bearer(OTHER)) is None
    assert keys.find(bearer(new)).is_admin


def test_a_broken_file_leaves_the_keys_and_is_logged_without_its_content(keys, file, caplog):
    file.write_text('{"keys": [{"name": "x", "sha256": "my-secret"}]}')
    keys.refresh()
    file.unlink()
    keys.refresh()
    assert keys.find(bearer(OTHER))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "line"),
        ("[]", "LORIKEET_KEYS_FILE"),
        ('{"keys": [{"name": "x", "sha256": "my-secret"}]}', "sha256"),
        ('{"keys": [{"name": "x", "key": "my-secret"}]}', "sha256"),
        (json.dumps({"keys": [{"name": "x", "sha256": sha256("a")}] * 2}), "one name"),
    ],
)
def test_a_file_that_cannot_be_read_ends_the_start_and_is_not_quoted(file, content, says):
    file.write_text(content)
    with pytest.raises(SettingsError, match=says) as caught:
        Keys(None, None, file)
    assert "my-secret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_keys_are_not_kept(keys):
    assert CLIENT not in repr(vars(keys))
