"""What one HTTP request may see and holds: set by the gate, read where vLLM looks up an adapter's name."""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any


@dataclass(eq=False)
class RequestScope:
    """`visible` None: every adapter. `held`: what the request resolved, by name; `releases` give it back."""

    visible: frozenset[str] | None = None
    held: dict[str, Any] = field(default_factory=dict)
    releases: list[Callable[[], None]] = field(default_factory=list)

    def sees(self, name: str) -> bool:
        return self.visible is None or name in self.visible

    def close(self) -> None:
        while self.releases:
            self.releases.pop()()


current_scope: ContextVar[RequestScope | None] = ContextVar("current_scope", default=None)
