"""An ASGI client without a network, for the parts of the application."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from prometheus_client import CollectorRegistry

from lorikeet.serve.metrics import Metrics


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> Metrics:
    return Metrics(registry)


@pytest.fixture
def request_app() -> Callable[..., Answer]:
    """request_app(app, path, chunks=[b"…"], headers=[(b"name", b"value")]) → Answer."""

    def request(app, path="/v1/models", chunks=(b"",), headers=(), method="POST") -> Answer:
        messages = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
        messages[-1]["more_body"] = False
        sent = []

        async def receive():
            return messages.pop(0)

        async def send(message):
            sent.append(message)

        scope = {
            "type": "http",
            "path": path,
            "headers": list(headers),
            "method": method,
            "query_string": b"",
        }
        asyncio.run(app(scope, receive, send))
        assert [message["type"] for message in sent][:1] == ["http.response.start"]
        assert sum(message["type"] == "http.response.start" for message in sent) == 1
        headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return Answer(sent[0]["status"], headers, b"".join(message.get("body", b"") for message in sent[1:]))

    return request
