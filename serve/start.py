"""The steps from parsed arguments to an application that answers, each a phase of the start-up journal."""

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.types import ASGIApp

from lorikeet.kernels.journal import Journal
from lorikeet.serve import engine as vllm_engine
from lorikeet.serve.caches import check_caches
from lorikeet.serve.engine import Engine
from lorikeet.serve.engine_defaults import default_arguments
from lorikeet.serve.launch import Launch
from lorikeet.serve.metrics import Metrics
from lorikeet.serve.request_metrics import MeasuredEngine

T = TypeVar("T")


@dataclass(frozen=True)
class Started:
    """A running engine and its OpenAI application; close `lifespan` when it goes."""

    engine: Engine
    app: ASGIApp
    lifespan: AsyncExitStack


async def start(launch: Launch, journal: Journal, metrics: Metrics) -> Started:
    """Start the engine that `launch.arguments` describe and build its application.

    Raises:
        Exception: anything that vLLM raises on the way, and StartError for what we check ourselves.
    """
    engine = await _start_engine(launch, journal)
    with journal.phase("app"):
        client = MeasuredEngine(engine.client, metrics, engine.model_name)
        app: Any = await vllm_engine.build_openai_app(engine, client)
        lifespan = AsyncExitStack()
        await lifespan.enter_async_context(app.router.lifespan_context(app))
    with journal.phase("adapters"):
        await vllm_engine.load_adapters(engine, app)
    with journal.phase("ready"):
        await vllm_engine.try_one_token(engine)
    return Started(engine, app, lifespan)


async def _start_engine(launch: Launch, journal: Journal) -> Engine:
    def build() -> Engine:
        journal.write("begin", "import", mono=launch.start_mono)
        check_caches(launch.settings.cache_dir)
        arguments = [*default_arguments(launch.settings.drain_s), *launch.arguments()]
        args = vllm_engine.parse_arguments(arguments)
        vllm_engine.check_model_path(args.model)
        if vllm_engine.autotune_flag_given(args):
            os.environ["LORIKEET_AUTOTUNE"] = "operator"  # for the engine's processes
        journal.write("end", "import")
        with journal.phase("config"):
            config = vllm_engine.create_config(args, launch.settings.kernels)
        journal.write("begin", "engine_spawn")  # ended by the first worker, or else below
        client = vllm_engine.start_client(args, config)
        journal.write("end", "engine_spawn")
        return Engine(client, args, ())

    built = await in_thread(build)
    await built.client.reset_mm_cache()  # drops the dummy inputs of profiling
    return Engine(built.client, built.args, tuple(await built.client.get_supported_tasks()))


async def in_thread(call: Callable[[], T]) -> T:
    """Await `call()` run in a thread that the interpreter's exit does not wait for, as to_thread's would."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def deliver(setter: Callable[[Any], None], value: Any) -> None:
        if not done.cancelled():
            setter(value)

    def run() -> None:
        setter: Callable[[Any], None] = done.set_result
        try:
            value: Any = call()
        except BaseException as exc:
            setter, value = done.set_exception, exc
        with suppress(RuntimeError):  # the loop is closed: the server ended and nobody waits
            loop.call_soon_threadsafe(deliver, setter, value)

    threading.Thread(target=run, name="engine", daemon=True).start()
    return await done
