"""Panels of where the time of the last starts went."""

from lorikeet_dashboards.panels import BLUE, AnyPanel, areas, bars, latest, lines, number, query, states
from lorikeet_dashboards.selectors import HERE, STARTED

# In order; a phase that a start does not have stays empty.
PHASES = (
    *("import", "config", "engine_spawn", "device", "weights", "lora_tune", "profile", "graph_profile"),
    *("kv_cache", "kernel_warmup", "lora_warmup", "flashinfer_autotune", "graph_capture"),
    *("app", "adapters", "ready", "other"),
)
COMPILING = "lora_tune|profile|graph_profile|kernel_warmup|lora_warmup|flashinfer_autotune|graph_capture"
SECONDS = "lorikeet_startup_phase_seconds"
FIRST_RANK = f'rank=~"api|0", {HERE}'  # these add up to the whole start


def starts() -> list[AnyPanel]:
    by_phase = f"sum by (phase) ({SECONDS}{{{FIRST_RANK}}})"
    return [
        number(
            "Last start",
            "From process start to ready, or to now while it starts.",
            "s",
            [latest(f"lorikeet_startup_seconds{{{HERE}}}", "{{instance}}")],
        ),
        number(
            "Starts in this time",
            "How often the process began anew, at most one for each scrape.",
            "none",
            [latest(f"sum(changes(({STARTED})[$__range:]) + 1)")],
        ),
        number(
            "Slowest rank behind the first",
            "How much longer its phases took than rank 0's, all together. 0 with one GPU.",
            "s",
            [
                latest(
                    f'max by (instance) (sum by (instance, rank) ({SECONDS}{{rank!="api", {HERE}}}))'
                    f' - sum by (instance) ({SECONDS}{{rank="0", {HERE}}})',
                    "{{instance}}",
                )
            ],
        ),
        lines(
            "Compiling and capturing",
            "profile (with torch.compile inside), measuring, warm-up and graph capture; the slowest rank.",
            "s",
            [query(f'max by (phase) ({SECONDS}{{phase=~"{COMPILING}", {HERE}}})', "{{phase}}")],
            width=12,
        ),
        _waterfall(),
        areas(
            "Starts, phase on phase",
            "Whole height: the start-up time of the process that runs then. It grows while it starts.",
            "s",
            [query(by_phase, "{{phase}}")],
            width=12,
        ).height(10),
        bars(
            "Last start, longest first",
            "Own time of each phase, without the phases inside it. `other` is time in none.",
            "s",
            [latest(f"sort_desc({by_phase})", "{{phase}}")],
            width=12,
        ),
    ]


def _waterfall() -> AnyPanel:
    # A phase runs while its seconds grow: they differ from those of 4 s ago, or are new.
    running = "max((({0} != {0} offset 4s) or ({0} unless {0} offset 4s)) * 0 + 1) or vector(0)"
    return (
        states(
            "Waterfall",
            "Which phase ran when, to 4 s. Mark the time of one start to see it large.",
            [query(running.format(f'{SECONDS}{{phase="{phase}", {FIRST_RANK}}}'), phase) for phase in PHASES],
            {0: (" ", "transparent"), 1: ("runs", BLUE)},
        )
        .height(12)
        .interval("2s")
    )
