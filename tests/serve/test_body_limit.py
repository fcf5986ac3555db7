import json

import pytest

from lorikeet.serve.body_limit import BodyLimit


async def echo_length(scope, receive, send):
    """Answers 200 with the body's length; 400 when reading fails, as FastAPI does."""
    num_bytes, more, status = 0, True, 200
    try:
        while more:
            message = await receive()
            num_bytes += len(message["body"])
            more = message["more_body"]
    except Exception:
        status = 400
    await send({"type": "http.response.start", "status": status, "headers": []})
    await send({"type": "http.response.body", "body": str(num_bytes).encode()})


async def no_catch(scope, receive, send):
    while (await receive())["more_body"]:
        pass


@pytest.fixture
def limited(metrics):
    return BodyLimit(echo_length, 10, metrics)


@pytest.mark.parametrize(
    "chunks", [[b""], [b"x" * 10], [b"x" * 5, b"x" * 5]], ids=["empty", "full", "in two"]
)
def test_a_body_within_the_limit_passes(limited, request_app, chunks):
    answer = request_app(limited, chunks=chunks)
    assert (answer.status, int(answer.body)) == (200, sum(map(len, chunks)))


@pytest.mark.parametrize(
    ("chunks", "headers"),
    [
        ([b"x" * 11], [(b"content-length", b"11")]),
        ([b"x" * 6, b"x" * 6], []),
        ([b"x" * 6, b"x" * 6], [(b"content-length", b"3")]),
        ([b"x"], [(b"content-length", b"-1")]),
    ],
    ids=["declared", "chunked", "declared too small", "declared badly"],
)
@pytest.mark.parametrize("app", [echo_length, no_catch])
def test_a_body_above_it_is_413_whatever_the_application_makes_of_it(
    app, metrics, registry, request_app, chunks, headers
):
    answer = request_app(BodyLimit(app, 10, metrics), chunks=chunks, headers=headers)
    assert answer.status == 413
    assert json.loads(answer.body)["error"]["code"] == 413
    assert "LORIKEET_MAX_BODY_BYTES" in json.loads(answer.body)["error"]["message"]
    assert registry.get_sample_value("lorikeet_requests_rejected_total", {"reason": "body_too_large"}) == 1
