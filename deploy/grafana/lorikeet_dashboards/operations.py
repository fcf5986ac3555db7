"""The dashboard "Operations": is it up, is it fast for every adapter, is there room."""

from grafana_foundation_sdk.builders.dashboard import Dashboard

from lorikeet_dashboards.adapters import adapters
from lorikeet_dashboards.latency import latency
from lorikeet_dashboards.load import load
from lorikeet_dashboards.now import now
from lorikeet_dashboards.page import add_rows, choice, new_dashboard
from lorikeet_dashboards.selectors import HERE
from lorikeet_dashboards.throughput import throughput


def operations() -> Dashboard:
    dashboard = new_dashboard(
        "lorikeet-operations",
        "Lorikeet: operations",
        "Readiness, latency by adapter, throughput, queue, refusals, KV cache and adapters.",
    )
    dashboard.with_variable(choice("instance", "instance", "lorikeet_state"))
    dashboard.with_variable(choice("model", "model_name", "vllm:num_requests_running"))
    dashboard.with_variable(choice("adapter", "adapter", f"lorikeet_requests_in_flight{{{HERE}}}"))
    rows = {
        "Now": now(),
        "Latency by adapter": latency(),
        "Throughput": throughput(),
        "Queue, refusals, KV cache": load(),
        "Adapters": adapters(),
    }
    return add_rows(dashboard, rows)
