"""Ends an engine process whose server is gone: vLLM's own would go on holding its memory."""

import multiprocessing
import os
import threading


def end_with_parent() -> None:
    """Watch the process that spawned this one, and exit at once when it has ended. Idempotent.

    A parent-death signal would not do: it is sent when the spawning thread ends, and the server starts the
    engine in a thread of its own. Workers need no watch, they end with the engine process.
    """
    parent = multiprocessing.parent_process()
    if parent is None or any(thread.name == end_with_parent.__name__ for thread in threading.enumerate()):
        return

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, name=end_with_parent.__name__, daemon=True).start()
