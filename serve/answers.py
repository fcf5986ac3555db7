"""Sends OpenAI's error object as a whole ASGI response."""

from starlette.types import Send

from lorikeet.serve.errors import error_body


async def send_error(
    send: Send, status: int, message: str, kind: str, *, retry_after_s: int | None = None, close: bool = False
) -> None:
    """Answer with `status` and an error body; `close` ends the connection, for a body left unread."""
    body = error_body(message, kind, status)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if retry_after_s is not None:
        headers.append((b"retry-after", str(retry_after_s).encode()))
    if close:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
