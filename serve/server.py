"""The server's life: listen, start the engine, serve, then drain or fail."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from lorikeet.kernels.journal import STARTED, Journal
from lorikeet.serve.adapters.watcher import Watcher
from lorikeet.serve.app import build_app
from lorikeet.serve.caches import start_failed, start_succeeded
from lorikeet.serve.errors import StartError
from lorikeet.serve.failures import describe_failure, is_explained
from lorikeet.serve.launch import Launch
from lorikeet.serve.lifecycle import Lifecycle, State
from lorikeet.serve.listen import Address
from lorikeet.serve.log import logger
from lorikeet.serve.processes import kill_descendants
from lorikeet.serve.settings import Settings
from lorikeet.serve.start import Started, start
from lorikeet.serve.threads import in_thread
from lorikeet.serve.timeline import Timeline

POLL_S = 0.1
DEATH_GRACE_S = 3.0  # for open requests to get their error once the engine is dead
ENGINE_STOP_S = 10.0  # for the engine's processes to end by themselves


class Server:
    """One run of `lorikeet serve`."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._settings = launch.settings
        self._journal = Journal(launch.run_folder, "api")
        self._lifecycle = Lifecycle()
        self._timeline = Timeline(launch.run_folder, launch.start_mono)
        self._app = build_app(launch.settings, self._lifecycle, self._timeline)
        self._watcher = Watcher(launch.settings.adapters, self._app.catalogue)
        self._watching: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()

    async def run(self) -> int:
        """Serve until a signal ends it (returns 0) or the engine dies (returns 1).

        Raises:
            StartError: the start failed; the text says why, in one line.
        """
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._take_signal, number)
        http = _HttpServer(_http_config(self._app.asgi, self._settings, self._launch.address))
        serving = asyncio.create_task(http.serve(sockets=[self._launch.sock]))
        following = asyncio.create_task(self._app.keys.follow())
        logger.info("listening on %s", self._launch.address)
        try:
            return await self._live(serving)
        finally:
            following.cancel()
            http.should_exit = True
            await asyncio.wait({serving}, timeout=DEATH_GRACE_S)

    async def _live(self, serving: asyncio.Task[None]) -> int:
        stopping = asyncio.create_task(self._stop.wait())
        starting = asyncio.create_task(self._start())
        await asyncio.wait({starting, stopping, serving}, return_when=asyncio.FIRST_COMPLETED)
        _check_serving(serving)
        if not starting.done():
            logger.info("stopped while starting")
            return 0
        started = starting.result()
        death = asyncio.create_task(self._wait_for_death(started))
        await asyncio.wait({death, stopping, serving}, return_when=asyncio.FIRST_COMPLETED)
        _check_serving(serving)
        if death.done():
            return await self._fail()
        return await self._drain(started, death)

    async def _start(self) -> Started:
        progress = asyncio.create_task(self._log_phases())
        await in_thread(self._watcher.take_start)
        try:
            started = await start(self._launch, self._journal, self._app.metrics, self._app.catalogue)
        except Exception as exc:
            self._timeline.refresh()
            reason = describe_failure(exc, self._timeline.failure)
            if not is_explained(exc, self._timeline.failure):
                start_failed(self._settings.cache_dir)
            self._lifecycle.enter(State.FAILED, reason)
            raise StartError(reason) from exc
        finally:
            progress.cancel()
        self._timeline.finish()
        (self._launch.run_folder / STARTED).touch()
        start_succeeded(self._settings.cache_dir)
        self._app.gate.app = started.app
        self._lifecycle.enter(State.READY)
        self._watching = asyncio.create_task(self._watcher.run())
        logger.info("ready to serve %s after %s", started.engine.model_name, self._describe_phases())
        return started

    async def _wait_for_death(self, started: Started) -> None:
        while not started.engine.has_died:
            await asyncio.sleep(POLL_S)

    async def _fail(self) -> int:
        self._lifecycle.enter(State.FAILED, "the engine died")
        logger.error("the engine died; its own log above says why. Ending, so that the container restarts")
        await self._wait_for_requests(DEATH_GRACE_S)
        return 1

    async def _drain(self, started: Started, death: asyncio.Task[None]) -> int:
        self._lifecycle.enter(State.DRAINING)
        if self._watching:
            self._watching.cancel()
        drain_s = self._settings.drain_s
        logger.info("draining: %d requests get up to %g s", self._app.gate.num_in_flight, drain_s)
        await self._wait_for_requests(drain_s, death)
        died = started.engine.has_died
        if num_cut := self._app.gate.num_in_flight:
            logger.warning("%d requests were cut after %g s; LORIKEET_DRAIN_S sets it", num_cut, drain_s)
        else:
            started.engine.stop_listening()
        await in_thread(lambda: started.engine.shutdown(0 if num_cut else ENGINE_STOP_S))
        await self._wait_for_requests(DEATH_GRACE_S)
        await started.lifespan.aclose()
        return int(died)

    async def _wait_for_requests(self, timeout_s: float, death: asyncio.Task[None] | None = None) -> None:
        end = time.monotonic() + timeout_s
        while self._app.gate.num_in_flight and time.monotonic() < end and not (death and death.done()):
            await asyncio.sleep(POLL_S)

    def _take_signal(self, number: int) -> None:
        if self._stop.is_set():  # the operator will not wait
            kill_descendants()
            os._exit(128 + number)
        self._stop.set()

    async def _log_phases(self) -> None:
        phase = ""
        while True:
            self._timeline.refresh()
            if (now := self._timeline.current_phase()) != phase:
                phase = now
                logger.info("starting: %s, after %.1f s", phase, self._timeline.seconds)
            await asyncio.sleep(POLL_S)

    def _describe_phases(self) -> str:
        parts = [
            f"{time.phase} {time.seconds:.1f}" for time in self._timeline.phases() if time.seconds >= 0.1
        ]
        return f"{self._timeline.seconds:.1f} s ({', '.join(parts)})"


def _check_serving(serving: asyncio.Task[None]) -> None:
    """Raises StartError when nothing listens any more: a certificate that can't be read, say."""
    if serving.done():
        reason = serving.exception() or "it stopped by itself"
        raise StartError(f"the HTTP server ended: {reason}; check --ssl-certfile and --ssl-keyfile")


class _HttpServer(uvicorn.Server):
    """uvicorn without its signal handlers: ours decide when it ends."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _http_config(app: object, settings: Settings, address: Address) -> uvicorn.Config:
    return uvicorn.Config(
        app,  # type: ignore[arg-type]
        lifespan="off",
        log_config=None,
        access_log=settings.access_log,
        server_header=False,
        ssl_certfile=address.ssl_certfile,
        ssl_keyfile=address.ssl_keyfile,
    )
