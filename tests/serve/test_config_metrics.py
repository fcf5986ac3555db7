"""Metrics of how block sizes were found, from notes as workers write them."""

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from lorikeet.kernels.journal import Journal
from lorikeet.serve.config_metrics import ConfigCollector
from lorikeet.serve.timeline import Timeline


@pytest.fixture
def scrape(registry: CollectorRegistry, tmp_path):
    registry.register(ConfigCollector(Timeline(tmp_path, 0.0)))
    return lambda: generate_latest(registry).decode()


def test_no_series_before_a_worker_looked_anything_up(scrape):
    assert "lorikeet_lora_config_lookups_total{" not in scrape()


def test_lookups_of_all_ranks(scrape, tmp_path):
    for rank in (0, 1):
        journal = Journal(tmp_path, "worker", rank)
        journal.write("note", "lora_configs", matches={"exact": 3, "default": 2}, refused=1, coverage=[])
    text = scrape()
    for op in ("lora_shrink", "lora_expand"):
        for match, count in (("exact", 6.0), ("bucket", 0.0), ("capability", 0.0), ("default", 4.0)):
            assert f'lorikeet_lora_config_lookups_total{{match="{match}",op="{op}"}} {count}' in text
    assert "lorikeet_lora_config_folders_refused 1.0" in text
