"""Our own HTTP routes, and the ASGI application that joins them with vLLM's."""

from dataclasses import dataclass

from fastapi import FastAPI, Response
from fastapi.responses import HTMLResponse, JSONResponse
from prometheus_client import CollectorRegistry, disable_created_metrics
from starlette.types import ASGIApp, Receive, Scope, Send

from lorikeet.serve.autotune_metrics import AutotuneCollector
from lorikeet.serve.body_limit import BodyLimit
from lorikeet.serve.config_metrics import ConfigCollector
from lorikeet.serve.exposition import exposition
from lorikeet.serve.gate import Gate
from lorikeet.serve.kernel_metrics import KernelCollector
from lorikeet.serve.lifecycle import Lifecycle
from lorikeet.serve.metrics import Metrics, StartupCollector
from lorikeet.serve.settings import Settings
from lorikeet.serve.status import status_document, status_page
from lorikeet.serve.timeline import Timeline

OWN_ROUTES = frozenset({"/livez", "/readyz", "/health", "/metrics", "/status", "/status.json"})


@dataclass(frozen=True)
class Application:
    """What `build_app` made: the ASGI application, and the parts that the server steers it by."""

    asgi: ASGIApp
    gate: Gate
    metrics: Metrics


def build_app(settings: Settings, lifecycle: Lifecycle, timeline: Timeline) -> Application:
    """Build everything that answers HTTP. vLLM's application is put into `gate.app` when it exists."""
    disable_created_metrics()  # type: ignore[no-untyped-call]  # they would double the series
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    registry.register(StartupCollector(lifecycle, timeline))
    registry.register(KernelCollector(timeline))
    registry.register(ConfigCollector(timeline))
    registry.register(AutotuneCollector(timeline, timeline.folder))
    gate = Gate(lifecycle, timeline, metrics, settings.retry_after_s)
    own = _own_routes(registry, lifecycle, timeline, settings.retry_after_s)
    limited = BodyLimit(gate, settings.max_body_bytes, metrics)

    async def dispatch(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or scope["path"] in OWN_ROUTES:
            await own(scope, receive, send)
        else:
            await limited(scope, receive, send)

    return Application(dispatch, gate, metrics)


def _own_routes(
    registry: CollectorRegistry, lifecycle: Lifecycle, timeline: Timeline, retry_after_s: int
) -> FastAPI:
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
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
    async def status() -> JSONResponse:
        return JSONResponse(status_document(lifecycle, timeline))

    @app.get("/status")
    async def status_html() -> HTMLResponse:
        return HTMLResponse(page)

    return app
