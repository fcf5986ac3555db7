"""Lorikeet's own settings, read from `LORIKEET_*` once at start. vLLM's settings are its own arguments."""

import os
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from lorikeet.serve.errors import SettingsError

PREFIX = "LORIKEET_"


class Settings(BaseSettings):
    """Every setting with its default; its environment name is the field's in capitals after `LORIKEET_`."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True)

    run_dir: Path | None = Field(None, description="folder for start-up journals; default: a temporary one")
    cache_dir: Path = Field(
        Path.home() / ".cache" / "lorikeet", description="folder for what is prepared once and kept"
    )
    kernels: Literal["auto", "on", "off"] = Field(
        "auto", description="our LoRA kernels: where they fit, or fail where they don't, or never"
    )
    autotune: Literal["auto", "vllm"] = Field(
        "auto", description="who decides on FlashInfer's autotune pass; vLLM's own flags win over both"
    )
    drain_s: float = Field(30.0, ge=0, description="seconds that running requests get after SIGTERM")
    retry_after_s: int = Field(5, ge=1, description="seconds named in Retry-After when work is refused")
    max_body_bytes: int = Field(32 * 1024**2, ge=1024, description="largest request body; above it 413")
    max_adapter_bytes: int = Field(4 * 1024**3, ge=1, description="largest weights file of an adapter")
    strict_base: bool = Field(False, description="refuse an adapter that names another base model")
    access_log: bool = Field(False, description="one log line a request")
    debug: bool = Field(False, description="show tracebacks of failures")


def read_settings() -> Settings:
    """Read and check the `LORIKEET_*` part of the environment.

    Raises:
        SettingsError: a `LORIKEET_*` name is unknown, or its value can't be read.
    """
    known = sorted(PREFIX + name.upper() for name in Settings.model_fields)
    for name in sorted(os.environ):
        if name.startswith(PREFIX) and name not in known:
            raise SettingsError(f"unknown setting {name}; known are {', '.join(known)}")
    try:
        return Settings()
    except ValidationError as exc:
        first = exc.errors()[0]
        name = PREFIX + str(first["loc"][0]).upper()
        raise SettingsError(f"{name}={first['input']}: {first['msg'].lower()}") from exc
