"""The stack's committed dashboards and rules, read: panels, expressions, alerts."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
RULES = sorted((DEPLOY / "prometheus" / "rules").glob("*.yml"))
DASHBOARDS = sorted((DEPLOY / "grafana" / "dashboards").glob("*.json"))
# What Grafana puts in place of its variables, with everything chosen.
VARIABLES = {
    "$__rate_interval": "20s",
    "$__range": "30m",
    "$instance": ".*",
    "$model": ".*",
    "$adapter": ".*",
}


@dataclass(frozen=True)
class Panel:
    """One panel of a dashboard."""

    dashboard: str
    json: dict[str, Any]

    @property
    def title(self) -> str:
        return str(self.json["title"])

    @property
    def is_gpu_only(self) -> bool:
        return "GPU only" in self.json["description"]

    @property
    def targets(self) -> list[dict[str, Any]]:
        return list(self.json["targets"])

    def __str__(self) -> str:
        return f"{self.dashboard}: {self.title}"


def dashboards() -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in DASHBOARDS}


def panels() -> list[Panel]:
    """All of them but the rows' titles."""
    return [
        Panel(name, panel)
        for name, dashboard in dashboards().items()
        for panel in dashboard["panels"]
        if panel["type"] != "row"
    ]


def rules() -> list[dict[str, Any]]:
    """Recording and alert rules of all files."""
    groups = [group for path in RULES for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]]
    return [rule for group in groups for rule in group["rules"]]


def alerts() -> list[dict[str, Any]]:
    return [rule for rule in rules() if "alert" in rule]


def recorded() -> set[str]:
    """Names of the series that rules make."""
    return {rule["record"] for rule in rules() if "record" in rule}


def choose_everything(expr: str) -> str:
    """A dashboard's expression as Grafana sends it."""
    for variable, value in VARIABLES.items():
        expr = expr.replace(variable, value)
    return expr


def expressions() -> dict[str, str]:
    """Every expression of rules and panels, and every variable's series, by where it stands."""
    found = {f"rule {rule.get('alert') or rule.get('record')}": rule["expr"] for rule in rules()}
    for panel in panels():
        for target in panel.targets:
            found[f"{panel} {target['refId']}"] = choose_everything(target["expr"])
    for name, dashboard in dashboards().items():
        for variable in dashboard["templating"]["list"]:
            series, _, label = (
                variable["query"].removeprefix("label_values(").removesuffix(")").rpartition(", ")
            )
            found[f"{name} ${variable['name']}"] = f"sum by ({label}) ({choose_everything(series)})"
    return found
