"""Panels of one look: is it up, how much does it do."""

from lorikeet_dashboards.panels import (
    BLUE,
    GREEN,
    RED,
    YELLOW,
    AnyPanel,
    latest,
    number,
    query,
    states,
    worded,
)
from lorikeet_dashboards.selectors import ADAPTER, HERE, MODEL, STARTED, rate

STATES = {1: ("ready", GREEN), 2: ("starting", BLUE), 3: ("draining", YELLOW), 4: ("failed", RED)}
# One number a server, of the state whose series is 1.
STATE = " + ".join(
    f'{value} * sum by (instance) (lorikeet_state{{state="{word}", {HERE}}})'
    for value, (word, _) in STATES.items()
)


def now() -> list[AnyPanel]:
    return [
        worded(
            number(
                "State",
                "Requests are answered while it is ready; else they get 503. /status says more.",
                "none",
                [latest(STATE, "{{instance}}")],
            ),
            STATES,
        ),
        number(
            "Running for",
            "Since the process started. Short, though nobody restarted it: the engine died.",
            "s",
            [latest(f"time() - ({STARTED})", "{{instance}}")],
        ),
        number(
            "Requests in the engine",
            "Running and waiting, of the chosen adapters.",
            "none",
            [query(f"sum(lorikeet_requests_in_flight{{{ADAPTER}}})")],
        ),
        number(
            "Requests waiting",
            "In vLLM's queue. More than a few for long: the server is full.",
            "none",
            [query(f"sum(vllm:num_requests_waiting{{{MODEL}}})")],
            (10, YELLOW),
            (100, RED),
        ),
        number(
            "Tokens written a second",
            "By all engines of the chosen models together.",
            "none",
            [query(f"sum({rate(f'vllm:generation_tokens_total{{{MODEL}}}')})")],
        ),
        number(
            "KV cache in use",
            "Of the fullest engine. Near 100% requests wait, or are stopped and computed again.",
            "percentunit",
            [query(f"max(vllm:kv_cache_usage_perc{{{MODEL}}})")],
            (0.8, YELLOW),
            (0.95, RED),
        ),
        states("State over time", "A row for each server.", [query(STATE, "{{instance}}")], STATES),
    ]
