"""The autotune pass in metrics and status, from journals as workers write them."""

import json

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from lorikeet.kernels.autotune import PASS
from lorikeet.kernels.journal import Journal
from lorikeet.serve.autotune_metrics import AutotuneCollector, kernel_report
from lorikeet.serve.timeline import Timeline

DECIDED = {
    "outcome": "tuned",
    "reason": "seen",
    "text": "FlashInfer's autotune pass runs: tunable operators were seen",
    "operators": {"profile": {"fp8_gemm": 3}, "capture": {"fp8_gemm": 2, "unknown": 1}},
    "families": ["fp8_linear"],
    "missed": [],
}


@pytest.fixture
def timeline(tmp_path) -> Timeline:
    return Timeline(tmp_path, 0.0)


@pytest.fixture
def scrape(registry: CollectorRegistry, timeline):
    registry.register(AutotuneCollector(timeline, timeline.folder))
    return lambda: generate_latest(registry).decode()


def test_no_series_before_the_workers_decide(scrape):
    assert "lorikeet_flashinfer_autotune{" not in scrape()
    assert "lorikeet_flashinfer_autotune_seconds 0" not in scrape()


def test_a_decision_of_two_ranks(scrape, tmp_path):
    for rank in (0, 1):
        journal = Journal(tmp_path, "worker", rank)
        journal.write("begin", PASS, mono=10.0)
        journal.write("end", PASS, mono=12.0 + rank)
        journal.write("decision", PASS, **DECIDED)
    text = scrape()
    assert 'lorikeet_flashinfer_autotune{decision="tuned",reason="seen"} 1.0' in text
    assert "lorikeet_flashinfer_autotune_seconds 3.0" in text
    assert 'lorikeet_flashinfer_tunable_ops{evidence="profile",op="fp8_gemm"} 6.0' in text
    assert 'lorikeet_flashinfer_tunable_ops{evidence="capture",op="unknown"} 2.0' in text


def test_a_skipped_pass_takes_no_time(scrape, tmp_path):
    skipped = DECIDED | {"outcome": "skipped", "reason": "nothing_to_tune", "operators": {}}
    Journal(tmp_path, "worker", 0).write("decision", PASS, **skipped)
    text = scrape()
    assert 'lorikeet_flashinfer_autotune{decision="skipped",reason="nothing_to_tune"} 1.0' in text
    assert "lorikeet_flashinfer_autotune_seconds 0.0" in text
    assert "lorikeet_flashinfer_tunable_ops{" not in text


def test_untuned_choices_are_read_at_every_scrape(scrape, timeline, tmp_path):
    assert "lorikeet_flashinfer_untuned_choices_total{" not in scrape()
    timeline.finish()  # ready: the journal is read no more
    for rank in (0, 1):
        (tmp_path / f"untuned-{rank}.json").write_text(json.dumps({"fp8_gemm": 4}))
    assert 'lorikeet_flashinfer_untuned_choices_total{op="fp8_gemm"} 8.0' in scrape()


def test_the_report_names_the_decision_and_the_families_in_use(timeline, tmp_path):
    assert kernel_report(timeline)["autotune"] is None
    assert {row["in_use"] for row in kernel_report(timeline)["families"]} == {None}
    Journal(tmp_path, "worker", 0).write("decision", PASS, **DECIDED)
    timeline.refresh()
    report = json.loads(json.dumps(kernel_report(timeline)))
    assert report["autotune"]["outcome"] == "tuned"
    assert [row["name"] for row in report["families"] if row["in_use"]] == ["fp8_linear"]
