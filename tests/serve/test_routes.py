"""The allow-list against every route that vLLM registers."""

import typing

import pytest

from lorikeet.serve.routes import ROUTES, Access, find_route, methods_of

pytestmark = pytest.mark.slow  # imports vLLM

# vLLM's routes that stay closed: they load code or weights, steer the engine, or repeat a named one.
CLOSED = {
    "/abort_requests", "/adapters", "/adapters/{adapter_name}", "/classify", "/collective_rpc", "/detokenize",
    "/docs", "/docs/oauth2-redirect", "/finish_weight_update", "/generative_scoring", "/get_world_size",
    "/inference/v1/abort_requests", "/inference/v1/generate", "/init_weight_transfer_engine", "/invocations",
    "/is_paused", "/is_scaling_elastic_ep", "/is_sleeping", "/kv_event_sources", "/load", "/openapi.json",
    "/pause", "/ping", "/redoc", "/release_kv_cache_memory", "/reset_encoder_cache", "/reset_mm_cache",
    "/reset_prefix_cache", "/resume", "/scale_elastic_ep", "/server_info", "/shutdown_weight_transfer_engine",
    "/sleep", "/start_draft_weight_update", "/start_weight_update", "/tokenize", "/update_weight_version",
    "/update_weights", "/v1/chat/completions/batch", "/v1/chat/completions/derender",
    "/v1/chat/completions/render", "/v1/completions/derender", "/v1/completions/render",
    "/v1/messages/render", "/v1/responses/render", "/v1/systemone", "/v2/embed", "/version", "/wake_up",
    "/weight_checker", "/weight_info",
}  # fmt: skip


@pytest.fixture(scope="module")
def registered() -> set[tuple[str, str]]:
    """(method, path) of all that vLLM's application has, for every task and with everything switched on."""
    from tests_root import ROOT
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.entrypoints.launchers.app import build_app
    from vllm.tasks import SupportedTask

    from lorikeet.serve.demo.smollm2 import DEMO_NAME, prepare
    from lorikeet.serve.engine import parse_arguments

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_ALLOW_RUNTIME_LORA_UPDATING", "1")
        patch.setenv("VLLM_SERVER_DEV_MODE", "1")
        args = parse_arguments([str(prepare(ROOT / ".demo" / DEMO_NAME)), "--enable-lora"])
        model_config = AsyncEngineArgs.from_cli_args(args).create_model_config()
        app = build_app(args, tuple(_texts(SupportedTask)), model_config)
    return set(_walk(app.routes))


def _texts(annotation) -> list[str]:
    """The strings of nested Literal types."""
    inner = typing.get_args(annotation)
    return [text for part in inner for text in (_texts(part) or [part]) if isinstance(text, str)]


def _walk(routes, prefix: str = ""):
    for route in routes:
        path = prefix + getattr(route, "path", "")
        if getattr(route, "routes", None):
            yield from _walk(route.routes, path)
        elif "WebSocket" in type(route).__name__:
            yield "WEBSOCKET", path
        else:
            yield from ((method, path) for method in getattr(route, "methods", None) or {"GET"})


@pytest.mark.filterwarnings("ignore")
def test_every_route_of_vllms_is_named_or_known_to_be_closed(registered):
    assert len(registered) > 60
    undecided = {
        (method, path)
        for method, path in registered
        if path not in CLOSED and method != "HEAD" and find_route(method, path) is None
    }
    assert undecided == set(), "name it in routes.py, or add it to CLOSED here"


@pytest.mark.filterwarnings("ignore")
def test_no_closed_route_is_answered_by_any_method(registered):
    for _, path in registered:
        if path in CLOSED:
            plain = path.replace("{adapter_name}", "x")
            found = [route for route in ROUTES for m in route.methods if find_route(m, plain) is route]
            assert all(not route.is_ours and route.methods == {"GET"} for route in found), path


@pytest.mark.filterwarnings("ignore")
def test_the_routes_that_are_vllms_exist(registered):
    paths = {path.replace("{response_id}", "x") for _, path in registered}
    for route in ROUTES:
        if not route.is_ours and "rerank" not in route.pattern.pattern:
            assert any(route.pattern.fullmatch(path) for path in paths), route.pattern.pattern


@pytest.mark.parametrize(
    "path",
    ["", "/", "//v1/models", "/v1/models/", "/v1//models", "/V1/models", "/v1/models\n", "/v1/../v1/models",
     "/admin/adapters/", "/admin/adapters/a/b", "/admin/adapters/../x", "/admin/adapters/a/check/",
     "/v1/models?x", "/metrics/", "/status/"],
)  # fmt: skip
def test_only_the_exact_path_is_a_route(path):
    assert methods_of(path, with_admin=True) == frozenset()


def test_what_changes_adapters_is_an_admins():
    for route in ROUTES:
        if "adapter" in route.pattern.pattern:
            assert route.access is Access.ADMIN
