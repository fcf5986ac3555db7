"""Lorikeet's own settings, read from `LORIKEET_*` once at start. vLLM's settings are its own arguments."""

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

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
    tune: Literal["off", "startup", "ignore"] = Field(
        "off",
        description="measure the LoRA kernels' block sizes at start where this GPU has none, or ignore all",
    )
    tune_s: float = Field(60.0, gt=0, le=300, description="seconds that measuring at start may take")
    autotune: Literal["auto", "vllm"] = Field(
        "auto", description="who decides on FlashInfer's autotune pass; vLLM's own flags win over both"
    )
    drain_s: float = Field(30.0, ge=0, description="seconds that running requests get after SIGTERM")
    retry_after_s: int = Field(5, ge=1, description="seconds named in Retry-After when work is refused")
    max_body_bytes: int = Field(32 * 1024**2, ge=1024, description="largest request body; above it 413")
    adapters: Path | None = Field(None, description="watched folder; each sub-folder is an adapter")
    adapter_roots: Annotated[tuple[Path, ...], NoDecode] = Field(
        (), description="folders besides it that the admin API may load from, separated by ':'"
    )
    store_dir: Path | None = Field(None, description="folder of the server's own copies of adapters")
    strict_adapters: bool = Field(False, description="a refused adapter ends the start")
    pinned_adapters: str = Field("", description="names of adapters to keep resident, separated by commas")
    max_adapter_requests: int | None = Field(None, ge=1, description="requests at once that an adapter gets")
    max_adapter_bytes: int = Field(4 * 1024**3, ge=1, description="largest weights file of an adapter")
    strict_base: bool = Field(False, description="refuse an adapter that names another base model")
    allow_hub: bool = Field(False, description="the admin API may fetch adapters from the model hub")
    api_key: SecretStr | None = Field(None, description="key that clients must send")
    admin_key: SecretStr | None = Field(None, description="key of the admin routes, which are closed without")
    keys_file: Path | None = Field(None, description="file of keys with their rights; read when it changes")
    metrics_key: SecretStr | None = Field(None, description="key that /metrics asks for")
    access_log: bool = Field(False, description="one log line a request")
    debug: bool = Field(False, description="show tracebacks of failures")

    @field_validator("adapter_roots", mode="before")
    @classmethod
    def _split_roots(cls, value: object) -> object:
        return tuple(filter(None, value.split(":"))) if isinstance(value, str) else value

    @property
    def pinned_names(self) -> tuple[str, ...]:
        return tuple(filter(None, (name.strip() for name in self.pinned_adapters.split(","))))

    @property
    def roots(self) -> tuple[Path, ...]:
        """Where the admin API may load from."""
        return (*([self.adapters] if self.adapters else []), *self.adapter_roots)


def read_settings() -> Settings:
    """Read and check the `LORIKEET_*` part of the environment, and take the keys out of it.

    VLLM_API_KEY counts as LORIKEET_API_KEY; left in the environment, vLLM would ask for it a second time.

    Raises:
        SettingsError: a `LORIKEET_*` name is unknown, or its value can't be read.
    """
    known = sorted(PREFIX + name.upper() for name in Settings.model_fields)
    for name in sorted(os.environ):
        if name.startswith(PREFIX) and name not in known:
            raise SettingsError(f"unknown setting {name}; known are {', '.join(known)}")
    vllm_key = os.environ.pop("VLLM_API_KEY", None)
    if vllm_key and not os.environ.get(f"{PREFIX}API_KEY"):
        os.environ[f"{PREFIX}API_KEY"] = vllm_key
    try:
        settings = Settings()
        for name, value in settings:
            if isinstance(value, SecretStr):  # nothing that this process starts needs it
                os.environ.pop(PREFIX + name.upper(), None)
        return settings
    except ValidationError as exc:
        first = exc.errors()[0]
        name = PREFIX + str(first["loc"][0]).upper()
        raise SettingsError(f"{name}={first['input']}: {first['msg'].lower()}") from exc
