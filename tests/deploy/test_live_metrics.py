"""Rules and dashboards against a real Prometheus that scrapes a real server."""

import re
import signal
from collections import defaultdict
from pathlib import Path

import pytest
from gpu_exposition import gpu_exposition
from lorikeet_dashboards.starts import PHASES
from programs import needs_prometheus
from prometheus_client.parser import text_string_to_metric_families
from promql_names import grouping_labels, selectors
from stack_files import choose_everything, expressions, panels, recorded

from lorikeet.serve.adapters.entry import AdapterState

pytestmark = needs_prometheus
TARGET_LABELS = {"job", "instance"}  # Prometheus' own
RULES_LABELS = {"adapter", "reason"}  # of recorded series
ANY_VALUE = {"phase", "instance", "job"}  # phases differ from machine to machine: PHASES has all
# Values that a healthy demo doesn't have, from the code that sets them.
ELSEWHERE = {("lorikeet_adapter_state", "state"): {state.value for state in AdapterState}}
FAMILY = re.compile("_(bucket|sum|count)$")  # what a histogram's series have after its name
HAS_GPU = Path("/dev/nvidiactl").exists()
FIRST_SCRAPE_S = 20  # the machine is busy; a scrape every 2 s begins with the first answer

Labels = dict[str, dict[str, set[str]]]  # metric → label → values


def labels_of(text: str) -> Labels:
    found: Labels = defaultdict(lambda: defaultdict(set))
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name].update()
            for label, value in sample.labels.items():
                found[sample.name][label].add(value)
    return found


@pytest.fixture(scope="session")
def live_text(stack) -> str:
    return stack.server.metrics()


@pytest.fixture(scope="session")
def live(live_text: str) -> Labels:
    return labels_of(live_text)


@pytest.fixture(scope="session")
def on_gpu(tmp_path_factory: pytest.TempPathFactory) -> Labels:
    return labels_of(gpu_exposition(tmp_path_factory.mktemp("journal")))


@pytest.mark.parametrize("place", expressions())
def test_metrics_and_labels_exist(place, live_text, live, on_gpu):
    expr = expressions()[place]
    existing = {"le"} | TARGET_LABELS
    for selector in selectors(expr):
        if selector.metric in recorded() | {"up"}:
            existing |= RULES_LABELS
            continue
        assert selector.metric in live or selector.metric in on_gpu, f"{selector.metric} has no series"
        labels = live[selector.metric] if selector.metric in live else on_gpu[selector.metric]
        assert f"# TYPE {FAMILY.sub('', selector.metric)} " in live_text  # also without a series of its own
        existing |= labels.keys()
        for label, value in selector.labels:
            assert label in labels or label in TARGET_LABELS, f"{selector.metric} has no label {label}"
            if value is not None and label not in ANY_VALUE:
                known = labels[label] | on_gpu.get(selector.metric, {}).get(label, set())
                known |= ELSEWHERE.get((selector.metric, label), set())
                assert value in known, f"{selector.metric}: {label}={value}"
    assert grouping_labels(expr) <= existing


@pytest.mark.parametrize("panel", panels(), ids=str)
def test_panel_has_data(panel, stack):
    for target in panel.targets:
        expr = choose_everything(target["expr"])
        found = stack.prometheus.query(expr) if target.get("instant") else stack.prometheus.query_range(expr)
        if panel.is_gpu_only and not HAS_GPU:
            assert not found, f"{expr} is not for GPUs only"
        elif not panel.is_gpu_only:
            assert found, expr


def test_it_was_scraped_from_the_first_seconds_of_its_start(stack):
    (seconds,) = stack.prometheus.query_range("lorikeet_startup_seconds")
    assert float(seconds["values"][0][1]) < FIRST_SCRAPE_S
    assert stack.prometheus.query('max_over_time(lorikeet_state{state="starting"}[1h]) == 1')


def test_the_waterfall_shows_the_phases_that_ran(stack, live):
    (waterfall,) = (panel for panel in panels() if panel.title == "Waterfall")
    ran = set()
    for target in waterfall.targets:
        (series,) = stack.prometheus.query_range(choose_everything(target["expr"]))
        if any(value == "1" for _, value in series["values"]):
            ran.add(target["legendFormat"])
    assert {"import", "engine_spawn", "weights", "app"} <= ran
    assert ("graph_capture" in ran) is HAS_GPU
    assert live["lorikeet_startup_phase_seconds"]["phase"] <= set(PHASES)


def test_every_adapter_has_lines_of_its_own(stack):
    for title in (
        "Time to first token",
        "Time between tokens",
        "Time of a request",
        "Tokens written by adapter",
    ):
        (panel,) = (panel for panel in panels() if panel.title == title)
        found = stack.prometheus.query_range(choose_everything(panel.targets[0]["expr"]))
        assert {series["metric"]["adapter"] for series in found} == {"smollm2-135m", "pirate", "json"}


def test_nothing_fires_on_a_healthy_demo(stack):
    assert stack.prometheus.query_range('ALERTS{alertstate="firing"}') == []
    assert stack.prometheus.query('ALERTS{alertstate="pending"}') == []


def test_a_stop_is_seen_as_one(stack):
    """The last test here: it ends the server. A restart after it is nobody's death."""
    stack.server.process.send_signal(signal.SIGTERM)
    stack.server.process.wait(60)
    assert stack.prometheus.query('max_over_time(lorikeet_state{state="draining"}[1m]) == 1')
