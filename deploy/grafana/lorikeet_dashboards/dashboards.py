"""Both dashboards as the text of their files."""

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from lorikeet_dashboards.operations import operations
from lorikeet_dashboards.startup import startup


def render_all() -> dict[str, str]:
    """File name → JSON, keys sorted so that a change of the SDK's order changes nothing."""
    return {"operations.json": render(operations()), "startup-and-kernels.json": render(startup())}


def render(dashboard: Dashboard) -> str:
    return JSONEncoder(sort_keys=True, indent=2).encode(dashboard.build()) + "\n"
