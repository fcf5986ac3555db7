"""What `/status.json` says, and the page that shows it."""

from importlib.metadata import version
from importlib.resources import files
from typing import Any

from lorikeet.serve.autotune_metrics import kernel_report
from lorikeet.serve.lifecycle import Lifecycle
from lorikeet.serve.timeline import Timeline


def status_page() -> str:
    """The page for people: it fetches `status.json` and draws it."""
    return files("lorikeet.serve").joinpath("status.html").read_text(encoding="utf-8")


def status_document(
    lifecycle: Lifecycle, timeline: Timeline, adapters: list[dict[str, Any]]
) -> dict[str, Any]:
    """State, start-up and adapters as plain data; seconds are rounded to the millisecond."""
    timeline.refresh()
    phases = [
        {"phase": time.phase, "rank": time.rank, "seconds": round(time.seconds, 3), "running": time.running}
        for time in timeline.phases()
    ]
    return {
        "version": version("lorikeet-serve"),
        "state": lifecycle.state.value,
        "state_seconds": round(lifecycle.seconds, 3),
        "reason": lifecycle.reason,
        "startup": {
            "seconds": round(timeline.seconds, 3),
            "phase": timeline.current_phase(),
            "phases": phases,
            "decisions": timeline.decisions,
        },
        "kernels": kernel_report(timeline),
        "adapters": adapters,
    }
