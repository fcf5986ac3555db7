"""Blocking calls in threads, awaited on the event loop."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


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

    threading.Thread(target=run, name="blocking", daemon=True).start()
    return await done
