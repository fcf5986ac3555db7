"""The steps from parsed arguments to an application that answers, each a phase of the start-up journal."""

import os
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp

from lorikeet.kernels.journal import Journal
from lorikeet.serve import engine as vllm_engine
from lorikeet.serve.adapters.boot import Boot
from lorikeet.serve.adapters.catalogue import Catalogue
from lorikeet.serve.adapters.setup import Setup
from lorikeet.serve.caches import check_caches
from lorikeet.serve.engine import Engine
from lorikeet.serve.engine_adapters import LoadedAdapters
from lorikeet.serve.engine_defaults import default_arguments
from lorikeet.serve.launch import Launch
from lorikeet.serve.metrics import Metrics
from lorikeet.serve.request_metrics import MeasuredEngine
from lorikeet.serve.threads import in_thread


@dataclass(frozen=True)
class Started:
    """A running engine and its OpenAI application; close `lifespan` when it goes."""

    engine: Engine
    app: ASGIApp
    lifespan: AsyncExitStack


async def start(launch: Launch, journal: Journal, metrics: Metrics, catalogue: Catalogue) -> Started:
    """Start the engine that `launch.arguments` describe and build its application.

    Raises:
        Exception: anything that vLLM raises on the way, and StartError for what we check ourselves.
    """
    engine, setup = await _start_engine(launch, journal, catalogue)
    with journal.phase("app"):
        client = MeasuredEngine(engine.client, metrics, engine.model_name, catalogue.lease)
        app: Any = await vllm_engine.build_openai_app(engine, client)
        lifespan = AsyncExitStack()
        await lifespan.enter_async_context(app.router.lifespan_context(app))
    with journal.phase("adapters"):
        if setup:
            await catalogue.attach(setup, LoadedAdapters(engine.client, app, catalogue.listed))
    with journal.phase("ready"):
        await vllm_engine.try_one_token(engine)
    return Started(engine, app, lifespan)


async def _start_engine(
    launch: Launch, journal: Journal, catalogue: Catalogue
) -> tuple[Engine, Setup | None]:
    def build() -> tuple[Engine, Setup | None]:
        journal.write("begin", "import", mono=launch.start_mono)
        check_caches(launch.settings.cache_dir)
        arguments = [*default_arguments(launch.settings.drain_s), *launch.arguments()]
        args = vllm_engine.parse_arguments(arguments)
        vllm_engine.check_model_path(args.model)
        if vllm_engine.autotune_flag_given(args):
            os.environ["LORIKEET_AUTOTUNE"] = "operator"  # for the engine's processes
        journal.write("end", "import")
        with journal.phase("adapters"):
            boot = Boot(launch.settings, args, launch.run_folder) if args.enable_lora else None
        with journal.phase("config"):
            config = vllm_engine.create_config(args, launch.settings.kernels)
        with journal.phase("adapters"):
            setup = boot.check(config.model_config, catalogue) if boot else None
        journal.write("begin", "engine_spawn")  # ended by the first worker, or else below
        client = vllm_engine.start_client(args, config)
        journal.write("end", "engine_spawn")
        return Engine(client, args, ()), setup

    built, setup = await in_thread(build)
    await built.client.reset_mm_cache()  # drops the dummy inputs of profiling
    return Engine(built.client, built.args, tuple(await built.client.get_supported_tasks())), setup
