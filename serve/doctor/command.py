"""`lorikeet doctor [MODEL [any vllm serve argument]] [--json]`: what a start would decide, without one."""

import json
import os
import sys
from contextlib import redirect_stdout

from lorikeet.kernels.platform_hook import batch_invariant
from lorikeet.kernels.seams import check_seams
from lorikeet.serve.doctor.checks import (
    check_autotune,
    check_cache_folder,
    check_gpus,
    check_kernels,
    check_run_folder,
    check_seams_of_vllm,
    check_versions,
)
from lorikeet.serve.doctor.findings import Finding, as_data, as_text, exit_code
from lorikeet.serve.doctor.machine import Machine, this_machine
from lorikeet.serve.doctor.model_checks import check_model
from lorikeet.serve.engine_defaults import set_environment
from lorikeet.serve.settings import Settings, read_settings


def doctor_command(argv: list[str]) -> int:
    """Print the findings; 1 when a start would fail or not do what was asked, else 0."""
    as_json = "--json" in argv
    model = [argument for argument in argv if argument != "--json"]
    settings = read_settings()
    set_environment(os.environ, settings.cache_dir)
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    with redirect_stdout(sys.stderr):  # vLLM logs to standard output, which is ours
        findings = examine(model, settings, this_machine())
    print(
        json.dumps(as_data(findings), indent=1) if as_json else as_text(findings), end="\n" if as_json else ""
    )
    return exit_code(findings)


def examine(model: list[str], settings: Settings, machine: Machine) -> list[Finding]:
    """All findings, of the machine and then of MODEL with its arguments if there are any."""
    seams = check_seams()
    findings = [
        check_gpus(machine),
        check_versions(machine),
        check_seams_of_vllm(seams),
        check_kernels(machine, seams, settings.kernels, batch_invariant()),
        check_autotune(machine, settings.autotune),
        check_run_folder(settings.run_dir),
        check_cache_folder(settings.cache_dir, chosen="cache_dir" in settings.model_fields_set),
    ]
    return findings + (check_model(model, settings, machine) if model else [])
