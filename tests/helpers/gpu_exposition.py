"""What `/metrics` says of kernels on a GPU, by the real collectors, from journals as workers write them."""

import json
from pathlib import Path

from prometheus_client import CollectorRegistry

from lorikeet.kernels.autotune import PASS
from lorikeet.kernels.autotune_decision import Vote, decide
from lorikeet.kernels.choice import Choice
from lorikeet.kernels.journal import Journal
from lorikeet.kernels.matches import CHOSEN, MATCHES
from lorikeet.kernels.platform_hook import report_choice
from lorikeet.kernels.seams import EXPECTED, Seam
from lorikeet.kernels.untuned_choices import PREFIX
from lorikeet.serve.autotune_metrics import AutotuneCollector
from lorikeet.serve.config_metrics import ConfigCollector
from lorikeet.serve.exposition import exposition
from lorikeet.serve.kernel_metrics import KernelCollector
from lorikeet.serve.timeline import Timeline

OPERATOR = "fp4_gemm"


def gpu_exposition(folder: Path) -> str:
    """The text for a start whose registry and evidence disagree, with an untuned choice after it."""
    journal = Journal(folder, "worker", 0)
    seams = [Seam(name, True, expected, expected) for name, expected in EXPECTED.items()]
    report_choice(Choice("lorikeet", "chosen", seams=seams), journal)
    journal.write("note", CHOSEN, gpu="", matches=dict.fromkeys(MATCHES, 1), refused=0, coverage=[])
    decision = decide([Vote(seen=(OPERATOR,))])
    journal.write(
        "decision",
        PASS,
        outcome=decision.outcome,
        reason=decision.reason,
        operators={"profile": {OPERATOR: 1}},
        families=[],
    )
    (folder / f"{PREFIX}0.json").write_text(json.dumps({OPERATOR: 1}))
    registry = CollectorRegistry()
    timeline = Timeline(folder, 0.0)
    registry.register(KernelCollector(timeline))
    registry.register(ConfigCollector(timeline))
    registry.register(AutotuneCollector(timeline, folder))
    return exposition(registry)[0].decode()
