"""Our own HTTP routes, and the ASGI application that joins them with vLLM's."""

from dataclasses import dataclass

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from prometheus_client import CollectorRegistry, disable_created_metrics
from starlette.types import ASGIApp, Receive, Scope, Send

from lorikeet.serve.adapters.api import AdapterRoutes
from lorikeet.serve.adapters.catalogue import Catalogue
from lorikeet.serve.adapters.errors import AdapterError
from lorikeet.serve.adapters.metrics import AdapterCollector, AdapterMetrics
from lorikeet.serve.answers import answer_adapter_error, answer_invalid_body
from lorikeet.serve.autotune_metrics import AutotuneCollector
from lorikeet.serve.body_limit import BodyLimit
from lorikeet.serve.config_metrics import ConfigCollector
from lorikeet.serve.exposition import exposition
from lorikeet.serve.gate import Gate
from lorikeet.serve.guard import KEY, ROUTE, Guard
from lorikeet.serve.kernel_metrics import KernelCollector
from lorikeet.serve.keys import Keys
from lorikeet.serve.lifecycle import Lifecycle
from lorikeet.serve.metrics import Metrics, StartupCollector
from lorikeet.serve.settings import Settings
from lorikeet.serve.status import status_document, status_page
from lorikeet.serve.timeline import Timeline


@dataclass(frozen=True)
class Application:
    """What `build_app` made: the ASGI application, and the parts that the server steers it by."""

    asgi: ASGIApp
    gate: Gate
    metrics: Metrics
    catalogue: Catalogue
    keys: Keys


def build_app(settings: Settings, lifecycle: Lifecycle, timeline: Timeline) -> Application:
    """Build everything that answers HTTP. vLLM's application is put into `gate.app` when it exists."""
    disable_created_metrics()  # type: ignore[no-untyped-call]  # they would double the series
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    registry.register(StartupCollector(lifecycle, timeline))
    registry.register(KernelCollector(timeline))
    registry.register(ConfigCollector(timeline))
    registry.register(AutotuneCollector(timeline, timeline.folder))
    catalogue = Catalogue(AdapterMetrics(registry), metrics, settings.max_adapter_requests)
    registry.register(AdapterCollector(catalogue.entries))
    gate = Gate(lifecycle, timeline, metrics, settings.retry_after_s)
    own = _own_routes(registry, lifecycle, timeline, catalogue, settings.retry_after_s)
    own.include_router(AdapterRoutes(catalogue, settings).router)

    async def dispatch(scope: Scope, receive: Receive, send: Send) -> None:
        route = scope.get(ROUTE)
        await (own if route is None or route.is_ours else gate)(scope, receive, send)

    limited = BodyLimit(dispatch, settings.max_body_bytes, metrics)
    keys = Keys(settings.api_key, settings.admin_key, settings.keys_file)
    guard = Guard(limited, keys, Keys(settings.metrics_key, None, None), metrics)
    return Application(guard, gate, metrics, catalogue, keys)


def _own_routes(
    registry: CollectorRegistry,
    lifecycle: Lifecycle,
    timeline: Timeline,
    catalogue: Catalogue,
    retry_after_s: int,
) -> FastAPI:
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.add_exception_handler(AdapterError, answer_adapter_error)
    app.add_exception_handler(RequestValidationError, answer_invalid_body)
    page = status_page()

    @app.get("/livez")
    async def livez() -> Response:
        return Response("ok\n", media_type="text/plain")

    @app.get("/readyz")
    @app.get("/health")
    async def readyz() -> JSONResponse:
        timeline.refresh()
        body = {"state": lifecycle.state.value, "seconds": round(lifecycle.seconds, 3)}
        if lifecycle.is_ready:
            return JSONResponse(body)
        body |= {"phase": timeline.current_phase(), "reason": lifecycle.reason}
        return JSONResponse(body, 503, headers={"Retry-After": str(retry_after_s)})

    @app.get("/metrics")
    async def metrics() -> Response:
        text, content_type = exposition(registry)
        return Response(text, headers={"Content-Type": content_type})

    @app.get("/status.json")
    async def status(request: Request) -> JSONResponse:
        key = request.scope.get(KEY)
        adapters = catalogue.documents(key.adapters if key else None)
        return JSONResponse(status_document(lifecycle, timeline, adapters))

    @app.get("/status")
    async def status_html() -> HTMLResponse:
        return HTMLResponse(page)

    return app
