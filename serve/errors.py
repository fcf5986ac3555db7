"""Our exceptions, and OpenAI's error object made from one."""

import json
from typing import Any


class LorikeetError(Exception):
    """Base of everything we raise on purpose. The text says what was got, what is allowed and what to do."""


class SettingsError(LorikeetError):
    """A setting can't be read, or its name is unknown."""


class StartError(LorikeetError):
    """The server can't start or serve; the process ends with this text as its last line."""


def error_body(message: str, kind: str, status: int, param: str | None = None) -> bytes:
    """OpenAI's error object as JSON bytes: {"error": {"message", "type", "param", "code"}}."""
    error: dict[str, Any] = {"message": message, "type": kind, "param": param, "code": status}
    return json.dumps({"error": error}).encode()
