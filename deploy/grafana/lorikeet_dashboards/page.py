"""What every dashboard has in common: its frame, the choices at its top, its rows of panels."""

from collections.abc import Mapping, Sequence

from grafana_foundation_sdk.builders.dashboard import Dashboard, DashboardLink, QueryVariable, Row
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

from lorikeet_dashboards.panels import DATASOURCE, AnyPanel

TAG = "lorikeet"
EVERYTHING = ".*"  # what "All" stands for: a list of a thousand adapters would be too long for a query


def new_dashboard(uid: str, title: str, description: str) -> Dashboard:
    """An empty one, linked with our others."""
    others = DashboardLink("Lorikeet").type(DashboardLinkType.DASHBOARDS).tags([TAG])
    return (
        Dashboard(title)
        .uid(uid)
        .description(description)
        .tags([TAG])
        .timezone("browser")
        .time("now-30m", "now")
        .refresh("10s")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .link(others.as_dropdown(False).include_vars(True).keep_time(True))
    )


def choice(name: str, label: str, series: str) -> QueryVariable:
    """The values that label `label` has in `series`; several can be chosen, and all are at first."""
    return (
        QueryVariable(name)
        .label(name.capitalize())
        .datasource(DATASOURCE)
        .query(f"label_values({series}, {label})")
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(EVERYTHING)
        .current(VariableOption(selected=True, text="All", value="$__all"))
    )


def add_rows(dashboard: Dashboard, rows: Mapping[str, Sequence[AnyPanel]]) -> Dashboard:
    """The dashboard with a titled row for each list of panels."""
    for title, panels in rows.items():
        dashboard.with_row(Row(title))
        for panel in panels:
            dashboard.with_panel(panel)
    return dashboard
