"""Panels of the adapters themselves: which there are, how they are loaded, how busy they are."""

from lorikeet_dashboards.panels import AnyPanel, areas, facts, lines, query
from lorikeet_dashboards.selectors import ADAPTER, HERE, MAX_LINES, quantile, top


def adapters() -> list[AnyPanel]:
    in_flight = f"sum by (adapter) (lorikeet_requests_in_flight{{{ADAPTER}}})"
    loads = f"sum by (outcome, reason) (increase(lorikeet_adapter_loads_total{{{HERE}}}[5m]))"
    loading = f"lorikeet_adapter_load_seconds_bucket{{{HERE}}}"
    return [
        areas(
            "Adapters by state",
            "serving ones can be asked; refused ones are not loaded, and /status says why.",
            "none",
            [query(f"sum by (state) (lorikeet_adapter_state{{{ADAPTER}}})", "{{state}}")],
        ),
        lines(
            "Loads",
            "Adapters that were to be loaded in the last 5 minutes, by outcome and reason.",
            "none",
            [query(loads, "{{outcome}} {{reason}}")],
        ),
        areas(
            "Requests in the engine by adapter",
            f"Running and waiting; the {MAX_LINES} busiest adapters.",
            "none",
            [query(top(in_flight), "{{adapter}}")],
        ),
        facts(
            "Adapters that are served",
            "With their rank and the first characters of their files' SHA-256.",
            "none",
            f"max by (instance, adapter, rank, digest) (lorikeet_adapter_info{{{ADAPTER}}})",
            "Value",
            width=12,
        ),
        lines(
            "Time to load an adapter",
            "From its request to its first possible use: copy, check, load. 50% and 95% took less.",
            "s",
            [query(quantile(0.5, loading), "50%"), query(quantile(0.95, loading), "95%")],
            width=12,
        ),
    ]
