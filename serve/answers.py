"""OpenAI's error object as a whole response: for ASGI, and for the exceptions of our own routes."""

from fastapi import Request, Response
from starlette.types import Send

from lorikeet.serve.adapters.errors import AdapterError
from lorikeet.serve.errors import error_body


async def send_error(
    send: Send, status: int, message: str, kind: str, *, retry_after_s: int | None = None, close: bool = False
) -> None:
    """Answer with `status` and an error body; `close` ends the connection, for a body left unread."""
    body = error_body(message, kind, status)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if retry_after_s is not None:
        headers.append((b"retry-after", str(retry_after_s).encode()))
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if close:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def answer_adapter_error(request: Request, error: Exception) -> Response:
    """An adapter that is refused, unknown or somebody else's."""
    assert isinstance(error, AdapterError)
    body = error_body(str(error), error.kind, error.status)
    return Response(body, error.status, media_type="application/json")


async def answer_invalid_body(request: Request, error: Exception) -> Response:
    """A body that isn't what the route takes: 400, as OpenAI answers, with the first thing that is wrong."""
    first = error.errors()[0]  # type: ignore[attr-defined]
    where = ".".join(str(part) for part in first["loc"] if part != "body")[:100]
    message = f"{where}: {first['msg']}" if where else str(first["msg"])
    body = error_body(message, "invalid_request_error", 400, where or None)
    return Response(body, 400, media_type="application/json")
