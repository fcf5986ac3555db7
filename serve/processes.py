"""Ends what the engine left running, so that no process outlives the server."""

import psutil

# Python's own helper: it removes shared memory left by the others once they are gone, then ends itself.
KEPT = "multiprocessing.resource_tracker"


def kill_descendants() -> int:
    """Kill every child, grandchild and so on at once; returns how many there were."""
    killed = []
    for process in psutil.Process().children(recursive=True):
        try:
            if not any(KEPT in part for part in process.cmdline()):
                process.kill()
                killed.append(process)
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(killed, timeout=2)
    return len(killed)
