"""What one run of the server is given by the command line."""

import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lorikeet.serve.listen import Address
from lorikeet.serve.settings import Settings


@dataclass(frozen=True)
class Launch:
    """One start: vLLM's arguments, our settings, and a socket that listens already."""

    arguments: Callable[[], list[str]]  # may take a while; called in a thread
    settings: Settings
    run_folder: Path  # this start's journals
    start_mono: float  # process start on the monotonic clock
    address: Address
    sock: socket.socket
