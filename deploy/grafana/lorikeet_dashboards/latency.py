"""Panels of how long things take: for each measure, quantiles by adapter beside a heatmap."""

from grafana_foundation_sdk.builders.timeseries import Panel

from lorikeet_dashboards.panels import AnyPanel, heat, lines, query
from lorikeet_dashboards.selectors import ADAPTER, MAX_LINES, quantile, top

OBJECTIVE = query("lorikeet:time_between_tokens_objective:seconds", "objective {{adapter}}")
QUANTILES = {0.5: "50%", 0.95: "95%", 0.99: "99%"}


def latency() -> list[AnyPanel]:
    first, between, whole = (
        "From the engine's acceptance of a request to its first token: the queue and the prompt.",
        "Gaps between the tokens of streamed requests: how fast text flows.",
        "From the engine's acceptance of a request to its end. Long answers take long.",
    )
    return [
        _quantiles("Time to first token", first, "lorikeet_time_to_first_token_seconds"),
        _heatmap("Time to first token", first, "lorikeet_time_to_first_token_seconds"),
        _quantiles("Time between tokens", between, "lorikeet_time_between_tokens_seconds").with_target(
            OBJECTIVE.ref_id("O")
        ),
        _heatmap("Time between tokens", between, "lorikeet_time_between_tokens_seconds"),
        _quantiles("Time of a request", whole, "lorikeet_request_seconds"),
        _heatmap("Time of a request", whole, "lorikeet_request_seconds"),
    ]


def _quantiles(title: str, meaning: str, metric: str) -> Panel:
    targets = [
        query(top(quantile(share, f"{metric}_bucket{{{ADAPTER}}}", "adapter")), f"{{{{adapter}}}} {word}")
        for share, word in QUANTILES.items()
    ]
    shown = f"50%, 95% and 99% of them took less than their line; the {MAX_LINES} slowest adapters."
    return lines(title, f"{meaning} {shown}", "s", targets, width=12)


def _heatmap(title: str, meaning: str, metric: str) -> AnyPanel:
    counted = "How many took how long, of all chosen adapters; choose one above to see it alone."
    return heat(f"{title}, spread", f"{meaning} {counted}", "s", f"{metric}_bucket{{{ADAPTER}}}")
