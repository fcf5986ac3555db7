"""The admin routes through the whole application, with an engine that only remembers."""

import asyncio
import shutil

import httpx
import pytest
from bad_adapters import CASES, GOOD, make
from memory_engine import Memory
from pydantic import SecretStr

from lorikeet.serve.adapters.preflight import Limits
from lorikeet.serve.adapters.setup import Setup
from lorikeet.serve.adapters.store import open_store
from lorikeet.serve.app import build_app
from lorikeet.serve.lifecycle import Lifecycle
from lorikeet.serve.settings import Settings
from lorikeet.serve.timeline import Timeline

ADMIN = {"authorization": "Bearer admin-key"}


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    shutil.copytree(GOOD, root / "good")
    return root


@pytest.fixture
def ask(base, root, tmp_path):
    """ask(*(method, path, body)) → the answers of one server to one request after the other."""

    def ask(*requests, attach=True, **settings):
        chosen = Settings(admin_key=SecretStr("admin-key"), adapter_roots=(root,), **settings)
        application = build_app(chosen, Lifecycle(), Timeline(tmp_path, 0.0))
        store = open_store(tmp_path / "store", tmp_path, tmp_path)
        setup = Setup(store, base, Limits(max_rank=16), frozenset({"base"}), 4)

        async def run():
            if attach:
                await application.catalogue.attach(setup, Memory())
            transport = httpx.ASGITransport(application.asgi)
            async with httpx.AsyncClient(transport=transport, base_url="http://x", headers=ADMIN) as client:
                return [
                    await client.request(method, path, json=body, headers=dict(*headers))
                    for method, path, body, *headers in requests
                ]

        return asyncio.run(run())

    return ask


def error(answer) -> dict:
    assert {"message", "type", "param", "code"} == set(answer.json()["error"])
    assert answer.json()["error"]["code"] == answer.status_code
    return answer.json()["error"]


def test_put_list_show_and_delete(ask, root):
    body = {"path": str(root / "good"), "pinned": True, "max_concurrency": 3}
    put, again, listed, shown, status, gone, twice, unknown = ask(
        ("PUT", "/admin/adapters/legal", body),
        ("PUT", "/admin/adapters/legal", body),
        ("GET", "/admin/adapters", None),
        ("GET", "/admin/adapters/legal", None),
        ("GET", "/status.json", None),
        ("DELETE", "/admin/adapters/legal", None),
        ("DELETE", "/admin/adapters/legal", None),
        ("DELETE", "/admin/adapters/never", None),
    )
    assert put.status_code == again.status_code == 200
    assert (put.json()["state"], put.json()["rank"], put.json()["pinned"]) == ("serving", 4, True)
    assert put.json() == again.json() == shown.json() == listed.json()["adapters"][0]
    assert status.json()["adapters"] == [shown.json()]
    assert (gone.status_code, gone.json()["state"]) == (200, "removed")
    assert (twice.status_code, twice.json()["state"]) == (200, "removed")
    assert (unknown.status_code, "never" in error(unknown)["message"]) == (404, True)


def test_settings_of_an_adapter_change_alone(ask, root):
    *_, changed, unknown = ask(
        ("PUT", "/admin/adapters/legal", {"path": str(root / "good")}),
        ("PUT", "/admin/adapters/legal", {"max_concurrency": 2}),
        ("PUT", "/admin/adapters/never", {"max_concurrency": 2}),
    )
    assert changed.json()["max_concurrency"] == 2
    assert unknown.status_code == 404


@pytest.mark.parametrize("case", CASES[::9], ids=lambda case: case.name)
def test_a_bad_one_is_400_with_its_name_and_reason(ask, root, case):
    path = str(make(case, root))
    put, check, listed = ask(
        ("PUT", "/admin/adapters/legal", {"path": path}),
        ("POST", "/admin/adapters/legal/check", {"path": path}),
        ("GET", "/admin/adapters", None),
    )
    assert put.status_code == 400
    assert error(put)["message"].startswith("adapter 'legal': ")
    assert error(put)["type"] == "invalid_request_error"
    assert check.status_code == 200
    assert not check.json()["sound"]
    assert case.reason in {problem["reason"] for problem in check.json()["problems"]}
    assert listed.json() == {"adapters": []}


def test_outside_the_roots_the_answer_is_one_whatever_is_there(ask, root):
    shutil.copytree(GOOD, root.parent / "there")
    paths = [root.parent / "there", root.parent / "not", root / "../there", "/etc/passwd", "/proc", "there"]
    answers = ask(*(("PUT", "/admin/adapters/legal", {"path": str(path)}) for path in paths))
    assert {answer.status_code for answer in answers} == {400}
    assert len({answer.text for answer in answers}) == 1


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"path": "a", "repo": "b/c"}, "one of path and repo"),
        ({"path": ""}, "path"),
        ({"path": 7}, "path"),
        ({"path": "x", "surprise": 1}, "surprise"),
        ({"path": "x", "max_concurrency": 0}, "max_concurrency"),
        ({"repo": "owner/name", "revision": "0" * 40}, "LORIKEET_ALLOW_HUB"),
        (["path"], "dictionary"),
    ],
)
def test_a_body_that_is_none_is_400(ask, body, says):
    (answer,) = ask(("PUT", "/admin/adapters/legal", body))
    assert answer.status_code == 400
    assert says in error(answer)["message"]


@pytest.mark.parametrize("name", ["base", "image", "a b", "-x", "x" * 97])
def test_a_name_that_is_none_is_400(ask, root, name):
    (answer,) = ask(("PUT", f"/admin/adapters/{name}", {"path": str(root / "good")}))
    assert answer.status_code == 400
    assert "name" in error(answer)["message"]


@pytest.mark.parametrize("path", ["a%2Fb", "..%2fx", "%2e%2e/x", "../x"])
def test_a_name_with_a_slash_is_no_route(ask, root, path):
    (answer,) = ask(("PUT", f"/admin/adapters/{path}", {"path": str(root / "good")}))
    assert answer.status_code == 404


def test_vllms_own_bodies_take_the_same_way(ask, root):
    body = {"lora_name": "legal", "lora_path": str(root / "good")}
    bad = {"lora_name": "worse", "lora_path": str(make(CASES[0], root))}
    loaded, again, in_place, outside, refused, unloaded, unknown = ask(
        ("POST", "/v1/load_lora_adapter", body),
        ("POST", "/v1/load_lora_adapter", body),
        ("POST", "/v1/load_lora_adapter", body | {"load_inplace": True}),
        ("POST", "/v1/load_lora_adapter", {"lora_name": "other", "lora_path": "/etc"}),
        ("POST", "/v1/load_lora_adapter", bad),
        ("POST", "/v1/unload_lora_adapter", {"lora_name": "legal"}),
        ("POST", "/v1/unload_lora_adapter", {"lora_name": "legal"}),
    )
    assert (loaded.status_code, "Success" in loaded.text) == (200, True)
    assert (again.status_code, "load_inplace" in error(again)["message"]) == (400, True)
    assert in_place.status_code == 200
    assert "leads out" in error(outside)["message"]
    assert refused.status_code == 400
    assert unloaded.status_code == 200
    assert (unknown.status_code, error(unknown)["type"]) == (404, "not_found_error")


def test_before_there_is_an_engine_it_is_503(ask, root):
    (answer,) = ask(("PUT", "/admin/adapters/legal", {"path": str(root / "good")}), attach=False)
    assert answer.status_code == 503
    assert error(answer)["type"] == "service_unavailable"


def test_a_key_for_some_adapters_sees_only_those_in_the_status(ask, root, tmp_path):
    import hashlib
    import json

    keys = tmp_path / "keys.json"
    digest = hashlib.sha256(b"few").hexdigest()
    keys.write_text(json.dumps({"keys": [{"name": "few", "sha256": digest, "adapters": ["legal"]}]}))
    body = {"path": str(root / "good")}
    *_, every, few, changed = ask(
        ("PUT", "/admin/adapters/legal", body),
        ("PUT", "/admin/adapters/secret", body),
        ("GET", "/status.json", None),
        ("GET", "/status.json", None, {"authorization": "Bearer few"}),
        ("DELETE", "/admin/adapters/legal", None, {"authorization": "Bearer few"}),
        keys_file=keys,
    )
    assert [adapter["name"] for adapter in every.json()["adapters"]] == ["legal", "secret"]
    assert [adapter["name"] for adapter in few.json()["adapters"]] == ["legal"]
    assert changed.status_code == 403
