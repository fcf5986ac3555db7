"""The dashboard "Start-up & kernels": where a start's time goes, and which kernels it chose."""

from grafana_foundation_sdk.builders.dashboard import Dashboard

from lorikeet_dashboards.kernels import kernels
from lorikeet_dashboards.page import add_rows, choice, new_dashboard
from lorikeet_dashboards.starts import starts


def startup() -> Dashboard:
    dashboard = new_dashboard(
        "lorikeet-startup",
        "Lorikeet: start-up & kernels",
        "Where the time of the last starts went, which kernels run, and how well they are tuned.",
    )
    dashboard.with_variable(choice("instance", "instance", "lorikeet_state"))
    return add_rows(dashboard, {"Starts": starts(), "Kernels": kernels()})
