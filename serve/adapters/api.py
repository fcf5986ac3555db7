"""The admin routes: adapters listed, put, removed and checked; vLLM's two do the same."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import BaseModel, ConfigDict, Field

from lorikeet.serve.adapters.catalogue import Catalogue
from lorikeet.serve.adapters.entry import AdapterState, Source
from lorikeet.serve.adapters.errors import AdapterNotFoundError, AdapterRefusedError
from lorikeet.serve.adapters.files import Place
from lorikeet.serve.adapters.hub import check_hub_adapter, fetch
from lorikeet.serve.adapters.reason import Reason
from lorikeet.serve.adapters.report import shown
from lorikeet.serve.adapters.setup import Wish
from lorikeet.serve.settings import Settings
from lorikeet.serve.threads import in_thread

DRAIN_WAIT_S = 1.0  # a DELETE waits this long, so that an idle adapter's answer is its end
DRAIN_POLL_S = 0.02


class AdapterBody(BaseModel):
    """Where an adapter is, and how it is served."""

    model_config = ConfigDict(extra="forbid")

    path: str | None = Field(None, min_length=1, max_length=4096)
    repo: str | None = None
    revision: str | None = None
    pinned: bool | None = None
    max_concurrency: int | None = Field(None, ge=1)


class LoadBody(BaseModel):
    """vLLM's own body of `/v1/load_lora_adapter`."""

    lora_name: str
    lora_path: str
    load_inplace: bool = False


class UnloadBody(BaseModel):
    """vLLM's own body of `/v1/unload_lora_adapter`."""

    lora_name: str


class AdapterRoutes:
    """Parse, call the catalogue, return."""

    def __init__(self, catalogue: Catalogue, settings: Settings) -> None:
        self._catalogue = catalogue
        self._settings = settings
        self.router = APIRouter()
        for method, path, answer in (
            ("GET", "/admin/adapters", self.list),
            ("GET", "/admin/adapters/{name}", self.show),
            ("PUT", "/admin/adapters/{name}", self.put),
            ("DELETE", "/admin/adapters/{name}", self.delete),
            ("POST", "/admin/adapters/{name}/check", self.check),
            ("POST", "/v1/load_lora_adapter", self.load),
            ("POST", "/v1/unload_lora_adapter", self.unload),
        ):
            self.router.add_api_route(path, answer, methods=[method], response_model=None)

    async def list(self) -> dict[str, Any]:
        return {"adapters": self._catalogue.documents()}

    async def show(self, name: str) -> dict[str, Any]:
        return self._catalogue.find(name).document()

    async def put(self, name: str, body: AdapterBody) -> dict[str, Any]:
        if body.path is None and body.repo is None:
            entry = await self._catalogue.change(name, body.pinned, body.max_concurrency)
        else:
            async with self._wish(name, body) as wish:
                entry = await self._catalogue.put(name, wish)
        return entry.document()

    async def delete(self, name: str) -> JSONResponse:
        entry = await self._catalogue.remove(name)
        end = asyncio.get_running_loop().time() + DRAIN_WAIT_S
        while entry.state is AdapterState.DRAINING and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(DRAIN_POLL_S)
        return JSONResponse(entry.document(), 202 if entry.state is AdapterState.DRAINING else 200)

    async def check(self, name: str, body: AdapterBody) -> dict[str, Any]:
        async with self._wish(name, body) as wish:
            report = await self._catalogue.check(name, wish.place)
        return {"name": name, **report.document()}

    async def load(self, body: LoadBody) -> PlainTextResponse:
        if body.lora_name in self._catalogue.listed and not body.load_inplace:
            raise AdapterRefusedError(
                f"adapter '{shown(body.lora_name)}': it is loaded already; set load_inplace to replace it",
                Reason.CONFLICT,
            )
        repo, _, revision = body.lora_path.partition("@")
        is_path = body.lora_path.startswith(("/", ".", "~"))
        given = AdapterBody(path=body.lora_path) if is_path else AdapterBody(repo=repo, revision=revision)
        async with self._wish(body.lora_name, given) as wish:
            await self._catalogue.put(body.lora_name, wish)
        return PlainTextResponse(f"Success: LoRA adapter '{body.lora_name}' added successfully.")

    async def unload(self, body: UnloadBody) -> PlainTextResponse:
        if body.lora_name not in self._catalogue.listed:
            raise AdapterNotFoundError(f"adapter '{shown(body.lora_name)}' does not exist", Reason.NAME)
        await self._catalogue.remove(body.lora_name)
        return PlainTextResponse(f"Success: LoRA adapter '{body.lora_name}' removed successfully.")

    @asynccontextmanager
    async def _wish(self, name: str, body: AdapterBody) -> AsyncIterator[Wish]:
        """What the body asks for; a hub's files lie in a folder of their own meanwhile."""
        options = {"pinned": body.pinned, "max_concurrency": body.max_concurrency}
        if (body.path is None) == (body.repo is None):
            raise AdapterRefusedError(f"adapter '{shown(name)}': name one of path and repo", Reason.SOURCE)
        if body.path is not None:
            place = Place(Path(body.path), self._settings.roots)
            yield Wish(Source.API, place, body.path, **options)  # type: ignore[arg-type]
            return
        assert body.repo is not None
        adapter = check_hub_adapter(name, body.repo, body.revision, self._settings.allow_hub)
        with tempfile.TemporaryDirectory(prefix="hub-") as folder:
            target = Path(folder)
            await in_thread(lambda: fetch(name, adapter, target, self._settings.max_adapter_bytes))
            yield Wish(Source.HUB, Place(target), adapter.origin, **options)  # type: ignore[arg-type]
