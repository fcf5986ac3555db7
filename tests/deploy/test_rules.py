"""Prometheus' configuration and rules: sound, each alert tried firing and silent, and explained."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from programs import PROMTOOL, needs_prometheus
from promql_names import selectors
from stack_files import DEPLOY, ROOT, alerts, expressions, recorded

RULE_TESTS = sorted((Path(__file__).parent / "rules").glob("*.yml"))
SEVERITIES = {"critical", "warning", "info"}  # wakes somebody; for working hours; good to know


def alert_tests() -> list[dict[str, Any]]:
    tests = [test for path in RULE_TESTS for test in yaml.safe_load(path.read_text())["tests"]]
    return [case for test in tests for case in test["alert_rule_test"]]


@needs_prometheus
def test_configuration_and_rules_are_sound():
    path = DEPLOY / "prometheus" / "prometheus.yml"
    _run("check", "config", "--lint-fatal", path)


@needs_prometheus
@pytest.mark.parametrize("path", RULE_TESTS, ids=lambda path: path.stem)
def test_rules_do_what_they_say(path: Path):
    _run("test", "rules", path)


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_alert_is_tried_firing_and_silent(alert):
    outcomes = {bool(test["exp_alerts"]) for test in alert_tests() if test["alertname"] == alert["alert"]}
    assert outcomes == {True, False}


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_alert_says_what_to_do(alert):
    assert alert["labels"]["severity"] in SEVERITIES
    assert {"summary", "description", "runbook"} == alert["annotations"].keys()
    page, _, anchor = alert["annotations"]["runbook"].partition("#")
    headings = re.findall(r"^## (.+)$", (ROOT / page).read_text(), re.MULTILINE)
    assert alert["alert"] in headings
    assert anchor == alert["alert"].lower()


def test_every_recorded_series_is_read():
    read = {selector.metric for expr in expressions().values() for selector in selectors(expr)}
    assert recorded() <= read


def test_runbook_has_no_paragraph_too_many():
    headings = re.findall(r"^## (Lorikeet\w+)$", (ROOT / "docs" / "runbook.md").read_text(), re.MULTILINE)
    assert sorted(headings) == sorted(alert["alert"] for alert in alerts())


def _run(*arguments: str | Path) -> None:
    done = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
