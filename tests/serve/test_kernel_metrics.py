"""The kernel metrics from journals as workers write them."""

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from lorikeet.kernels.choice import Choice
from lorikeet.kernels.journal import Journal
from lorikeet.kernels.platform_hook import report_choice
from lorikeet.kernels.seams import Seam
from lorikeet.serve.kernel_metrics import KernelCollector
from lorikeet.serve.timeline import Timeline

FITS = Seam("vllm.a:B.c", True, "()", "()")
CHANGED = Seam("vllm.a:B.c", False, "(self)", "()")


@pytest.fixture
def scrape(registry: CollectorRegistry, tmp_path):
    registry.register(KernelCollector(Timeline(tmp_path, 0.0)))
    return lambda: generate_latest(registry).decode()


def test_no_series_before_a_worker_decides(scrape):
    assert "lorikeet_lora_kernel{" not in scrape()
    assert "lorikeet_lora_kernel_calls_total{" not in scrape()


def test_ours(scrape, tmp_path):
    for rank in (0, 1):
        journal = Journal(tmp_path, "worker", rank)
        report_choice(Choice("lorikeet", "chosen", seams=[FITS]), journal)
        journal.write("note", "lora_kernels", launches=30, calls=100)
    text = scrape()
    assert 'lorikeet_lora_kernel{implementation="lorikeet",op="lora_linear",reason="chosen"} 1.0' in text
    assert text.count("lorikeet_lora_kernel{") == 1
    assert 'lorikeet_kernel_seam_ok{seam="vllm.a:B.c"} 1.0' in text
    assert 'lorikeet_lora_kernel_calls_total{op="lora_linear"} 200.0' in text


def test_stock_after_a_changed_seam_on_one_rank(scrape, tmp_path):
    report_choice(Choice("lorikeet", "chosen", seams=[FITS]), Journal(tmp_path, "worker", 0))
    report_choice(Choice("vllm", "seam", "changed", [CHANGED]), Journal(tmp_path, "worker", 1))
    text = scrape()
    assert 'implementation="vllm",op="lora_linear",reason="seam"} 1.0' in text
    assert 'lorikeet_kernel_seam_ok{seam="vllm.a:B.c"} 0.0' in text


def test_notes_of_other_phases_are_not_counted(scrape, tmp_path):
    Journal(tmp_path, "worker", 0).write("note", "compile", seconds=3.0)
    assert "lorikeet_lora_kernel_calls_total{" not in scrape()
