"""ASGI middleware: a request body above the limit is answered 413 before the application reads it."""

from contextlib import suppress

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lorikeet.serve.answers import send_error
from lorikeet.serve.metrics import Metrics


class BodyTooLargeError(Exception):
    """The body went over the limit while the application was reading it."""


class BodyLimit:
    """Bounds bodies by their declared length, and by what arrives when none is declared or it lies."""

    def __init__(self, app: ASGIApp, max_bytes: int, metrics: Metrics) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if not declared.isdigit() or int(declared) > self._max_bytes:
            await self._refuse(send)
            return
        num_bytes = 0
        answered = False

        async def receive_bounded() -> Message:
            nonlocal num_bytes
            message = await receive()
            num_bytes += len(message.get("body", b""))
            if num_bytes > self._max_bytes:
                raise BodyTooLargeError
            return message

        async def send_unless_over(message: Message) -> None:
            # An application may turn our exception into an answer of its own: ours takes its place.
            nonlocal answered
            if num_bytes <= self._max_bytes or answered:
                answered = True
                await send(message)

        with suppress(BodyTooLargeError):
            await self._app(scope, receive_bounded, send_unless_over)
        if not answered:
            await self._refuse(send)

    async def _refuse(self, send: Send) -> None:
        self._metrics.requests_rejected.labels("body_too_large").inc()
        limit = f"The request body is larger than {self._max_bytes} bytes."
        message = f"{limit} Send less, or raise LORIKEET_MAX_BODY_BYTES."
        await send_error(send, 413, message, "invalid_request_error", close=True)
