"""Who gets through, route by route, without an engine behind."""

import json

import pytest
from pydantic import SecretStr

from lorikeet.serve.guard import KEY, Guard
from lorikeet.serve.keys import Keys
from lorikeet.serve.routes import ROUTES, Access

CLIENT, ADMIN, METRICS = "client-key", "admin-key", "metrics-key"


async def inner(scope, receive, send):
    name = scope[KEY].name if scope[KEY] else ""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"x-key", name.encode())]})
    await send({"type": "http.response.body", "body": b"through"})


@pytest.fixture
def guarded(metrics):
    keys = Keys(SecretStr(CLIENT), SecretStr(ADMIN), None)
    return Guard(inner, keys, Keys(SecretStr(METRICS), None, None), metrics)


@pytest.fixture
def unguarded(metrics):
    return Guard(inner, Keys(None, None, None), Keys(None, None, None), metrics)


def cases(access: Access) -> list[tuple[str, str]]:
    """(method, path) of every HTTP route with this access."""
    import itertools
    import re

    found = []
    for route in ROUTES:
        if route.access is not access:
            continue
        pattern = route.pattern.pattern.replace("[^/]+", "name").replace("\\", "")
        pattern = re.sub(r"\((/[\w]+|\.json)\)\?", r"\1", pattern)
        parts = [part.split("|") for part in re.split(r"[()]", pattern)]
        paths = ["".join(choice) for choice in itertools.product(*parts)]
        found += [(method, path) for method in sorted(route.methods - {"WEBSOCKET"}) for path in paths]
    assert found
    return found


def bearer(key):
    return [(b"authorization", f"Bearer {key}".encode())]


NO_KEY = [[], bearer("wrong"), bearer(CLIENT[:-1]), [(b"authorization", f"Basic {CLIENT}".encode())]]


@pytest.mark.parametrize(("method", "path"), cases(Access.PUBLIC))
def test_probes_need_no_key(guarded, request_app, method, path):
    assert request_app(guarded, path, method=method).status == 200


@pytest.mark.parametrize("headers", NO_KEY, ids=["none", "wrong", "prefix", "basic"])
@pytest.mark.parametrize(
    ("method", "path"), [*cases(Access.CLIENT), *cases(Access.ADMIN), *cases(Access.METRICS)]
)
def test_without_a_key_every_other_route_is_401(guarded, request_app, method, path, headers):
    answer = request_app(guarded, path, method=method, headers=headers)
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert json.loads(answer.body)["error"]["type"] == "authentication_error"


@pytest.mark.parametrize(("method", "path"), cases(Access.CLIENT))
def test_a_clients_and_an_admins_key_open_the_client_routes(guarded, request_app, method, path):
    for key, name in ((CLIENT, "client"), (ADMIN, "admin")):
        answer = request_app(guarded, path, method=method, headers=bearer(key))
        assert (answer.status, answer.headers["x-key"]) == (200, name)


@pytest.mark.parametrize(("method", "path"), cases(Access.ADMIN))
def test_only_an_admins_key_opens_the_admin_routes(guarded, unguarded, request_app, method, path):
    assert request_app(guarded, path, method=method, headers=bearer(ADMIN)).status == 200
    assert request_app(guarded, path, method=method, headers=bearer(CLIENT)).status == 403
    assert request_app(unguarded, path, method=method).status == 404  # no admin: no such route


def test_metrics_have_a_key_of_their_own(guarded, unguarded, request_app):
    assert request_app(guarded, "/metrics", method="GET", headers=bearer(METRICS)).status == 200
    assert request_app(guarded, "/metrics", method="GET", headers=bearer(ADMIN)).status == 401
    assert request_app(unguarded, "/metrics", method="GET").status == 200


@pytest.mark.parametrize(("method", "path"), cases(Access.CLIENT))
def test_without_keys_client_routes_are_open(unguarded, request_app, method, path):
    assert request_app(unguarded, path, method=method).status == 200


@pytest.mark.parametrize(
    "path", ["/invocations", "/v1", "/v1/models/x/y", "//v1/models", "/v1/models/", "/tokenize", "/adapters"]
)
def test_unnamed_routes_are_404_even_with_a_key(guarded, request_app, path):
    for method in ("GET", "POST", "DELETE"):
        assert request_app(guarded, path, method=method, headers=bearer(ADMIN)).status == 404


def test_another_method_of_a_named_route_is_405(guarded, request_app):
    answer = request_app(guarded, "/v1/completions", method="DELETE", headers=bearer(CLIENT))
    assert answer.status == 405
    assert "POST" in json.loads(answer.body)["error"]["message"]


def test_a_browsers_preflight_passes_to_vllms_cors_only_where_clients_may_go(guarded, request_app):
    asks = [(b"origin", b"https://x"), (b"access-control-request-method", b"POST")]
    assert request_app(guarded, "/v1/completions", method="OPTIONS", headers=asks).status == 200
    assert request_app(guarded, "/v1/load_lora_adapter", method="OPTIONS", headers=asks).status != 200
    assert request_app(guarded, "/v1/completions", method="OPTIONS").status == 405


def test_a_rate_is_kept_and_says_when_to_come_again(metrics, registry, request_app, tmp_path):
    from hashlib import sha256

    file = tmp_path / "keys"
    digest = sha256(b"slow").hexdigest()
    file.write_text(json.dumps({"keys": [{"name": "s", "sha256": digest, "requests_per_minute": 2}]}))
    guard = Guard(inner, Keys(None, None, file), Keys(None, None, None), metrics)
    answers = [request_app(guard, "/v1/completions", headers=bearer("slow")) for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 429]
    assert 0 < int(answers[-1].headers["retry-after"]) <= 30
    assert request_app(guard, "/status.json", method="GET", headers=bearer("slow")).status == 200
    assert registry.get_sample_value("lorikeet_requests_rejected_total", {"reason": "rate"}) == 1


def test_a_websocket_without_a_key_is_closed(guarded):
    import asyncio

    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": "websocket", "path": "/v1/realtime", "headers": []}
    asyncio.run(guarded(scope, None, send))
    assert sent == [{"type": "websocket.close", "code": 1008}]
