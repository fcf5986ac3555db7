"""The address to listen on, found before vLLM is imported, and the socket bound to it."""

import argparse
import socket
from dataclasses import dataclass
from pathlib import Path

import yaml

from lorikeet.serve.errors import StartError

BACKLOG = 2048


@dataclass(frozen=True)
class Address:
    """Where to listen and with which certificate: the part of vLLM's arguments needed in the first second."""

    host: str | None = None
    port: int = 8000
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None

    def __str__(self) -> str:
        scheme = "https" if self.ssl_certfile else "http"
        host = self.host or "0.0.0.0"
        return f"{scheme}://[{host}]:{self.port}" if ":" in host else f"{scheme}://{host}:{self.port}"


def read_address(argv: list[str]) -> Address:
    """Read the address from vLLM's arguments and, behind them, from the YAML file that `--config` names.

    Everything else in `argv` is left for vLLM's own parser.

    Raises:
        StartError: a port that is no number, or a config file that can't be read.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for name in ("host", "port", "ssl-certfile", "ssl-keyfile", "config"):
        parser.add_argument(f"--{name}", f"--{name.replace('-', '_')}", dest=name.replace("-", "_"))
    known, _ = parser.parse_known_args([argument for argument in argv if argument != "-h"])
    given = {name: value for name, value in vars(known).items() if value is not None}
    if config := given.pop("config", None):
        given = _read_config(Path(config)) | given
    port = given.pop("port", Address.port)
    if not str(port).isdecimal() or not 0 < int(port) < 65536:
        raise StartError(f"--port {port}: must be a number from 1 to 65535")
    return Address(port=int(port), **given)


def bind(address: Address) -> socket.socket:
    """Bind and listen at once, so that a probe is answered rather than refused.

    Raises:
        StartError: the address is in use or not ours.
    """
    family = socket.AF_INET6 if ":" in (address.host or "") else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((address.host or "", address.port))
    except OSError as exc:
        sock.close()
        reason = (exc.strerror or str(exc)).lower()
        raise StartError(
            f"can't listen on {address}: {reason}; choose another with --port or --host"
        ) from exc
    sock.listen(BACKLOG)
    sock.set_inheritable(False)  # an engine that outlives us must not keep the port
    return sock


def _read_config(path: Path) -> dict[str, str]:
    try:
        values = yaml.safe_load(path.read_text()) or {}
    except (OSError, yaml.YAMLError) as exc:
        raise StartError(f"--config {path}: {exc}") from exc
    names = {str(name).replace("-", "_"): value for name, value in dict(values).items()}
    return {name: names[name] for name in ("host", "port", "ssl_certfile", "ssl_keyfile") if name in names}
