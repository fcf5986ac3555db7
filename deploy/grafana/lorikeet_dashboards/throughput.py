"""Panels of how much is done: tokens and requests, by adapter and by outcome."""

from grafana_foundation_sdk.builders.prometheus import Dataquery

from lorikeet_dashboards.panels import RED, AnyPanel, areas, lines, query
from lorikeet_dashboards.selectors import ADAPTER, MAX_LINES, MODEL, rate, top


def throughput() -> list[AnyPanel]:
    failed = f'increase(lorikeet_requests_total{{outcome="error", {ADAPTER}}}[5m])'
    ended = f"increase(lorikeet_requests_total{{{ADAPTER}}}[5m])"
    return [
        _tokens("Tokens written by adapter", "completion"),
        _tokens("Tokens read by adapter", "prompt"),
        areas(
            "Requests by outcome",
            "Ended, a second. ok: a stop; length: a token limit; cancelled: by the client; error: the rest.",
            "reqps",
            [query(f"sum by (outcome) ({rate(f'lorikeet_requests_total{{{ADAPTER}}}')})", "{{outcome}}")],
        ),
        lines(
            "Errors by adapter",
            f"Share of its requests of 5 minutes that ended in an error; the {MAX_LINES} worst adapters.",
            "percentunit",
            [query(top(f"sum by (adapter) ({failed}) / sum by (adapter) ({ended})"), "{{adapter}}")],
            (0.05, RED),
        ),
        lines(
            "Tokens in a step",
            "Mean number of tokens that the engine works on at once: how well requests share its steps.",
            "none",
            [_share("vllm:iteration_tokens_total_sum", "vllm:iteration_tokens_total_count")],
        ),
        lines(
            "Prompts known already",
            "Share of prompt tokens that vLLM's prefix cache had. An adapter finds its own alone.",
            "percentunit",
            [_share("vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total")],
        ),
    ]


def _tokens(title: str, kind: str) -> AnyPanel:
    tokens = rate(f'lorikeet_tokens_total{{kind="{kind}", {ADAPTER}}}')
    meaning = f"A second, counted when a request ends; the {MAX_LINES} busiest adapters."
    return areas(title, meaning, "none", [query(top(f"sum by (adapter) ({tokens})"), "{{adapter}}")])


def _share(part: str, whole: str) -> Dataquery:
    parts, wholes = (f"sum by (model_name) ({rate(f'{name}{{{MODEL}}}')})" for name in (part, whole))
    return query(f"{parts} / {wholes}", "{{model_name}}")
