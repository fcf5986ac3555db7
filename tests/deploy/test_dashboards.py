"""The committed dashboards: made by the code beside them, complete, bound to the data source."""

import re

import pytest
import yaml
from grafana_foundation_sdk.models.dashboard import Dashboard
from lorikeet_dashboards.dashboards import render_all
from lorikeet_dashboards.starts import PHASES
from stack_files import DASHBOARDS, DEPLOY, ROOT, dashboards, panels

from lorikeet.kernels.autotune import PASS

COLUMNS = 24
PROVISIONING = DEPLOY / "grafana" / "provisioning"


def test_files_are_what_the_code_makes():
    committed = {path.name: path.read_text(encoding="utf-8") for path in DASHBOARDS}
    assert committed == render_all(), "run `make dashboards`"


@pytest.mark.parametrize("panel", panels(), ids=str)
def test_panel_is_complete(panel):
    field = panel.json["fieldConfig"]["defaults"]
    assert panel.json["description"].endswith(".")
    assert field.get("unit") or panel.json["options"]["yAxis"]["unit"]
    assert field["thresholds"]["steps"]
    assert panel.targets
    assert len({target["refId"] for target in panel.targets}) == len(panel.targets)


@pytest.mark.parametrize("name", dashboards())
def test_panels_lie_side_by_side(name):
    taken = set()
    for panel in dashboards()[name]["panels"]:
        grid = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(grid["x"], grid["x"] + grid["w"])
            for y in range(grid["y"], grid["y"] + grid["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < COLUMNS
        taken |= cells


def test_everything_reads_the_provisioned_data_source():
    (source,) = yaml.safe_load((PROVISIONING / "datasources" / "prometheus.yml").read_text())["datasources"]
    variables = [v for dashboard in dashboards().values() for v in dashboard["templating"]["list"]]
    targets = [target for panel in panels() for target in panel.targets]
    uids = {part["datasource"]["uid"] for part in [*variables, *targets, *(p.json for p in panels())]}
    assert uids == {source["uid"]}


@pytest.mark.parametrize("name", dashboards())
def test_grafanas_own_model_reads_the_file(name):
    json = dashboards()[name]
    read = Dashboard.from_json(json)
    assert (read.uid, read.title) == (json["uid"], json["title"])
    assert len(read.panels) == len(json["panels"])


def test_dashboards_have_names_of_their_own():
    uids = [dashboard["uid"] for dashboard in dashboards().values()]
    assert len(set(uids)) == len(uids)
    titles = [(panel.dashboard, panel.title) for panel in panels()]
    assert len(set(titles)) == len(titles)


def test_the_waterfall_has_every_phase_that_the_code_names():
    sources = [
        path.read_text(encoding="utf-8")
        for name in ("serve", "kernels")
        for path in (ROOT / name).rglob("*.py")
    ]
    named = {phase for source in sources for phase in re.findall(r"journal\.phase\(\"(\w+)\"", source)}
    assert named | {PASS} <= set(PHASES)
