"""ASGI gate before vLLM's application: refuses while not ready, counts what is in it."""

import string

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lorikeet.serve.answers import send_error
from lorikeet.serve.guard import KEY
from lorikeet.serve.lifecycle import Lifecycle, State
from lorikeet.serve.metrics import Metrics
from lorikeet.serve.request_scope import RequestScope, current_scope
from lorikeet.serve.timeline import Timeline

MAX_REQUEST_ID = 128
REQUEST_ID_BYTES = frozenset((string.ascii_letters + string.digits + "-_.:").encode())


class Gate:
    """Holds vLLM's application once there is one, and decides request by request whether it is asked.

    `num_in_flight` counts requests inside the application until the last byte of their answers is sent.
    """

    def __init__(
        self, lifecycle: Lifecycle, timeline: Timeline, metrics: Metrics, retry_after_s: int
    ) -> None:
        self.app: ASGIApp | None = None
        self.num_in_flight = 0
        self._lifecycle = lifecycle
        self._timeline = timeline
        self._metrics = metrics
        self._retry_after_s = retry_after_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.app is None or not self._lifecycle.is_ready:
            await self._refuse_state(scope, send)
        else:
            await self._pass(self.app, scope, receive, send)

    async def _pass(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope["headers"] = [header for header in scope["headers"] if _is_sound(header)]

        async def send_with_retry(message: Message) -> None:
            # vLLM refuses what its queue limits don't admit without saying when to come again.
            if message["type"] == "http.response.start" and message["status"] in (429, 503):
                message["headers"] = [
                    *message["headers"],
                    (b"retry-after", str(self._retry_after_s).encode()),
                ]
            await send(message)

        self.num_in_flight += 1
        key = scope.get(KEY)
        held = RequestScope(key.adapters if key else None)
        token = current_scope.set(held)
        try:
            await app(scope, receive, send_with_retry)
        finally:
            current_scope.reset(token)
            held.close()
            self.num_in_flight -= 1

    async def _refuse_state(self, scope: Scope, send: Send) -> None:
        state = self._lifecycle.state
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1013})
            return
        self._metrics.requests_rejected.labels(state.value).inc()
        await send_error(
            send, 503, self._describe_state(), "service_unavailable", retry_after_s=self._retry_after_s
        )

    def _describe_state(self) -> str:
        state, timeline = self._lifecycle.state, self._timeline
        if state is State.STARTING:
            return f"The server is starting ({timeline.current_phase()}, {timeline.seconds:.0f} s)."
        if state is State.DRAINING:
            return "The server is shutting down and takes no new work."
        return f"The server has failed: {self._lifecycle.reason}."


def _is_sound(header: tuple[bytes, bytes]) -> bool:
    """False for a request id that is long or odd: vLLM would take it into its own ids and its log."""
    name, value = header
    return name != b"x-request-id" or (
        0 < len(value) <= MAX_REQUEST_ID and REQUEST_ID_BYTES.issuperset(value)
    )
