"""ASGI middleware before everything: an unnamed route is a 404, and the others ask for their key."""

from starlette.types import ASGIApp, Receive, Scope, Send

from lorikeet.serve.answers import send_error
from lorikeet.serve.keys import Key, Keys
from lorikeet.serve.metrics import Metrics
from lorikeet.serve.rates import Rates
from lorikeet.serve.routes import Access, Route, find_route, methods_of

KEY = "lorikeet.key"  # where the scope has the request's key
ROUTE = "lorikeet.route"


class Guard:
    """Lets a request through with its route and its key in the scope, or answers it."""

    def __init__(self, app: ASGIApp, keys: Keys, metrics_keys: Keys, metrics: Metrics) -> None:
        self._app = app
        self._keys = keys
        self._metrics_keys = metrics_keys
        self._metrics = metrics
        self._rates = Rates()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        method = "WEBSOCKET" if scope["type"] == "websocket" else scope["method"]
        if _is_cors_preflight(scope):  # browsers send it without a key; vLLM's CORS settings answer it
            route = find_route(_asked_method(scope), scope["path"])
            if route and route.access is Access.CLIENT and not route.is_ours:
                await self._pass(scope, receive, send, route, None)
                return
        route = find_route(method, scope["path"])
        if route is None or (route.access is Access.ADMIN and not self._keys.has_admin):
            await self._refuse_route(scope, send, method)
            return
        key = self._key_for(route, scope)
        if self._needs_key(route) and key is None:
            await self._refuse(
                scope, send, 401, "No valid API key was given. Send it as `Authorization: Bearer KEY`."
            )
        elif route.access is Access.ADMIN and not (key and key.is_admin):
            await self._refuse(scope, send, 403, "This API key is not an admin's.")
        elif key and not route.is_ours and (wait_s := self._rates.wait_s(key)):
            await self._refuse(scope, send, 429, "This API key's rate limit is reached.", wait_s)
        else:
            await self._pass(scope, receive, send, route, key)

    async def _pass(self, scope: Scope, receive: Receive, send: Send, route: Route, key: Key | None) -> None:
        scope[ROUTE], scope[KEY] = route, key
        await self._app(scope, receive, send)

    def _key_for(self, route: Route, scope: Scope) -> Key | None:
        keys = self._metrics_keys if route.access is Access.METRICS else self._keys
        return keys.find(scope["headers"])

    def _needs_key(self, route: Route) -> bool:
        if route.access is Access.METRICS:
            return self._metrics_keys.are_needed
        return route.access is Access.ADMIN or (route.access is Access.CLIENT and self._keys.are_needed)

    async def _refuse_route(self, scope: Scope, send: Send, method: str) -> None:
        path = scope["path"]
        allowed = methods_of(path, with_admin=self._keys.has_admin)
        if allowed:
            message = f"{method} is not allowed here; {', '.join(sorted(allowed))} is."
            await self._refuse(scope, send, 405, message)
        else:
            message = f"Unknown route {method} {path[:200]}. The OpenAI endpoints are under /v1."
            await self._refuse(scope, send, 404, message)

    async def _refuse(
        self, scope: Scope, send: Send, status: int, message: str, retry_after_s: int | None = None
    ) -> None:
        if status in (401, 403, 429):
            self._metrics.requests_rejected.labels("rate" if status == 429 else "key").inc()
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        kind = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
        await send_error(
            send, status, message, kind.get(status, "invalid_request_error"), retry_after_s=retry_after_s
        )


def _is_cors_preflight(scope: Scope) -> bool:
    return scope["type"] == "http" and scope["method"] == "OPTIONS" and bool(_asked_method(scope))


def _asked_method(scope: Scope) -> str:
    values = [value for name, value in scope["headers"] if name == b"access-control-request-method"]
    return values[0].decode("latin-1") if values else ""
