"""`lorikeet check ADAPTER [MODEL]`: prints what the server would say of an adapter."""

import argparse
from pathlib import Path

from lorikeet.serve.adapters.base_model import read_base_model
from lorikeet.serve.adapters.preflight import Limits, preflight
from lorikeet.serve.errors import StartError
from lorikeet.serve.settings import read_settings


def check_command(argv: list[str]) -> int:
    """Check one adapter folder; 0 when it can be served, 1 when not.

    Raises:
        StartError: the folder isn't there.
        BaseModelError: MODEL can't be read.
    """
    parser = argparse.ArgumentParser(prog="lorikeet check", description=__doc__)
    parser.add_argument("adapter", metavar="ADAPTER", type=Path, help="folder with adapter_config.json")
    parser.add_argument(
        "model", metavar="MODEL", nargs="?", help="base model: a folder, or a model hub's name"
    )
    parser.add_argument(
        "--max-lora-rank", metavar="N", type=int, help="the server's limit; vLLM's by default"
    )
    given = parser.parse_args(argv)
    if not given.adapter.is_dir():
        raise StartError(f"no adapter in {given.adapter}: it is no folder; name the one that holds its files")
    settings = read_settings()
    base = read_base_model(given.model) if given.model else None
    limits = Limits(given.max_lora_rank, settings.max_adapter_bytes, settings.strict_base)
    report = preflight(given.adapter, base, limits)
    print(report.text(given.adapter.resolve().name))
    return 0 if report.is_sound else 1
