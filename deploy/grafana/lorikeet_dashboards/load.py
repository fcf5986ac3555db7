"""Panels of how full the server is: queue, refusals, KV cache."""

from lorikeet_dashboards.panels import RED, YELLOW, AnyPanel, areas, lines, query
from lorikeet_dashboards.selectors import HERE, MODEL, quantile, rate


def load() -> list[AnyPanel]:
    queued = f"vllm:request_queue_time_seconds_bucket{{{MODEL}}}"
    waiting = f"sum by (reason) (vllm:num_requests_waiting_by_reason{{{MODEL}}})"
    return [
        lines(
            "Requests in vLLM",
            "Running ones are worked on in every step; waiting ones are not yet.",
            "none",
            [
                query(f"sum(vllm:num_requests_running{{{MODEL}}})", "running"),
                query(waiting, "waiting: {{reason}}"),
            ],
        ),
        lines(
            "Time in the queue",
            "50% and 95% of requests waited less before the engine took them up.",
            "s",
            [query(quantile(0.5, queued), "50%"), query(quantile(0.95, queued), "95%")],
        ),
        areas(
            "Refused requests",
            "A second, by reason. The runbook says what to do for each, under LorikeetRejections.",
            "reqps",
            [query(f"sum by (reason) ({rate(f'lorikeet_requests_rejected_total{{{HERE}}}')})", "{{reason}}")],
        ),
        lines(
            "KV cache by engine",
            "Room for the tokens of running requests. Full: requests wait, or are stopped and redone.",
            "percentunit",
            [
                query(
                    f"max by (instance, engine) (vllm:kv_cache_usage_perc{{{MODEL}}})",
                    "{{instance}} engine {{engine}}",
                )
            ],
            (0.95, RED),
            width=12,
        ),
        lines(
            "Requests stopped for room",
            "A second: preempted since the KV cache was full, and computed again later. Should be 0.",
            "none",
            [
                query(
                    f"sum by (model_name) ({rate(f'vllm:num_preemptions_total{{{MODEL}}}')})",
                    "{{model_name}}",
                )
            ],
            (0.1, YELLOW),
            width=12,
        ),
    ]
