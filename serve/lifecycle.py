"""The server's state, and the phase it is in while starting."""

import time
from enum import StrEnum


class State(StrEnum):
    """starting → ready → draining; failed can follow any."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    FAILED = "failed"


class Lifecycle:
    """Holds the one state that probes, metrics and the request gate read. Only `server.py` changes it."""

    def __init__(self) -> None:
        self.state = State.STARTING
        self.reason = ""
        self._since_mono = time.monotonic()

    @property
    def is_ready(self) -> bool:
        return self.state is State.READY

    @property
    def seconds(self) -> float:
        """How long this state has lasted."""
        return time.monotonic() - self._since_mono

    def enter(self, state: State, reason: str = "") -> None:
        """Change the state. Nothing follows `failed`, and only `failed` follows `draining`."""
        left = {State.FAILED: set(State), State.DRAINING: {State.STARTING, State.READY}}.get(
            self.state, set()
        )
        if state in left or state is self.state:
            return
        self.state, self.reason, self._since_mono = state, reason, time.monotonic()
