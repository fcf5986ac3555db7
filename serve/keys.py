"""API keys: who may ask for what. Only hashes are kept, and they are compared in constant time."""

import asyncio
import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from lorikeet.serve.errors import SettingsError
from lorikeet.serve.log import logger
from lorikeet.serve.threads import in_thread

POLL_S = 1.0
KEY_HEADERS = (b"authorization", b"x-api-key")


@dataclass(frozen=True)
class Key:
    """One key. `adapters` None: all of them; the base model is everybody's."""

    name: str
    sha256: str
    is_admin: bool = False
    adapters: frozenset[str] | None = None
    requests_per_minute: int | None = None


class _FileKey(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=96)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    admin: bool = False
    adapters: frozenset[str] | None = None
    requests_per_minute: int | None = Field(None, ge=1)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    keys: list[_FileKey]


class Keys:
    """The keys of the settings and those of a file, which is read again whenever it changes.

    Raises:
        SettingsError: the file can't be read or understood.
    """

    def __init__(self, client: SecretStr | None, admin: SecretStr | None, file: Path | None) -> None:
        self._file = file
        self._fixed = [
            Key(name, _hash(secret.get_secret_value().encode()), is_admin=is_admin)
            for name, secret, is_admin in (("client", client, False), ("admin", admin, True))
            if secret and secret.get_secret_value()
        ]
        self._signature = _signature(file)
        self._keys = [*self._fixed, *_read(file)]
        # A file without keys lets nobody in, rather than everybody.
        self.are_needed = file is not None or any(not key.is_admin for key in self._fixed)

    @property
    def has_admin(self) -> bool:
        return any(key.is_admin for key in self._keys)

    def find(self, headers: Iterable[tuple[bytes, bytes]]) -> Key | None:
        """The key of a request: `Authorization: Bearer KEY`, or `X-Api-Key: KEY`, and one of them once."""
        presented = [_presented(name, value) for name, value in headers if name in KEY_HEADERS]
        if len(presented) != 1 or not presented[0]:
            return None
        digest = _hash(presented[0])
        found = None
        for key in self._keys:  # every one, so that the time says nothing
            if hmac.compare_digest(key.sha256, digest):
                found = key
        return found

    async def follow(self) -> None:
        """Take the file's changes until cancelled; one that can't be read leaves the keys as they are."""
        while self._file:
            await asyncio.sleep(POLL_S)
            await in_thread(self.refresh)

    def refresh(self) -> None:
        """Read the file again if it has changed."""
        signature = _signature(self._file)
        if signature == self._signature:
            return
        self._signature = signature
        try:
            self._keys = [*self._fixed, *_read(self._file)]
        except SettingsError as exc:
            logger.error("%s; the keys stay as they were", exc)
        else:
            logger.info("read %d keys from %s", len(self._keys) - len(self._fixed), self._file)


def _read(file: Path | None) -> list[Key]:
    if file is None:
        return []
    try:
        read = _File.model_validate(yaml.safe_load(file.read_text()))
    except (OSError, UnicodeDecodeError) as exc:
        raise SettingsError(f"LORIKEET_KEYS_FILE={file} can't be read ({exc})") from exc
    except yaml.YAMLError as exc:
        line = getattr(getattr(exc, "problem_mark", None), "line", 0) + 1
        raise SettingsError(f"LORIKEET_KEYS_FILE={file}: line {line} is no YAML or JSON") from None
    except ValidationError as exc:
        # Neither pydantic's text nor the chained error: both quote what the file holds.
        where = ".".join(map(str, exc.errors()[0]["loc"]))
        raise SettingsError(f"LORIKEET_KEYS_FILE={file}: {where}: {exc.errors()[0]['msg'].lower()}") from None
    names = [key.name for key in read.keys]
    if len(set(names)) < len(names):
        raise SettingsError(f"LORIKEET_KEYS_FILE={file}: two keys have one name; give each its own")
    return [Key(key.name, key.sha256, key.admin, key.adapters, key.requests_per_minute) for key in read.keys]


def _presented(name: bytes, value: bytes) -> bytes:
    if name == b"x-api-key":
        return value
    scheme, _, key = value.partition(b" ")
    return key if scheme.lower() == b"bearer" else b""


def _hash(key: bytes) -> str:
    return hashlib.sha256(key).hexdigest()


def _signature(file: Path | None) -> tuple[int, int, int] | None:
    try:
        status = file.stat() if file else None
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size, status.st_ino) if status else None
