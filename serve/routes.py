"""Every route that is answered, with who may use it. What isn't named here is a 404, whoever registers it."""

import re
from dataclasses import dataclass
from enum import StrEnum


class Access(StrEnum):
    """What a request must show."""

    PUBLIC = "public"
    METRICS = "metrics"  # the metrics key, where one is set
    CLIENT = "client"  # any key, where keys are set
    ADMIN = "admin"  # an admin's key; closed where none is set


@dataclass(frozen=True)
class Route:
    """Paths with one access rule. `is_ours`: answered by our own application, not by vLLM's."""

    methods: frozenset[str]
    pattern: re.Pattern[str]
    access: Access
    is_ours: bool


def _route(methods: str, pattern: str, access: Access, is_ours: bool) -> Route:
    return Route(frozenset(methods.split()), re.compile(pattern), access, is_ours)


NAME = "[^/]+"
ROUTES = (
    _route("GET", "/(livez|readyz|health)", Access.PUBLIC, True),
    _route("GET", "/metrics", Access.METRICS, True),
    _route("GET", r"/status(\.json)?", Access.CLIENT, True),
    _route("GET", "/admin/adapters", Access.ADMIN, True),
    _route("GET PUT DELETE", f"/admin/adapters/{NAME}", Access.ADMIN, True),
    _route("POST", f"/admin/adapters/{NAME}/check", Access.ADMIN, True),
    _route("POST", "/v1/(load|unload)_lora_adapter", Access.ADMIN, True),
    _route("GET", "/v1/models", Access.CLIENT, False),
    _route("POST", "/v1/(chat/completions|completions|responses)", Access.CLIENT, False),
    _route("GET", f"/v1/responses/{NAME}", Access.CLIENT, False),
    _route("POST", f"/v1/responses/{NAME}/cancel", Access.CLIENT, False),
    _route("POST", "/v1/messages(/count_tokens)?", Access.CLIENT, False),
    _route("POST", "/v1/(embeddings|rerank|score)", Access.CLIENT, False),
    _route("POST", "/v1/audio/(transcriptions|translations)", Access.CLIENT, False),
    _route("WEBSOCKET", "/v1/realtime", Access.CLIENT, False),
)


def find_route(method: str, path: str) -> Route | None:
    """The route that answers; None for 404."""
    for route in ROUTES:
        if method in route.methods and route.pattern.fullmatch(path):
            return route
    return None


def methods_of(path: str, with_admin: bool) -> frozenset[str]:
    """What may be asked of a path; empty where it isn't named, or is an admin's and there is none."""
    routes = [route for route in ROUTES if with_admin or route.access is not Access.ADMIN]
    return frozenset().union(*(route.methods for route in routes if route.pattern.fullmatch(path)))
