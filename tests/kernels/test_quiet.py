"""In processes of their own: `one_line_failures` changes the whole process."""

import subprocess
import sys

import pytest

REPORT = """
def report(text):
    print("reported:", text, flush=True)
"""
LOGGED = """
import logging
from lorikeet.kernels.quiet import one_line_failures
logging.basicConfig()
one_line_failures(lambda: {started}, report)
one_line_failures(lambda: {started}, report)
try:
    1 / 0
except ZeroDivisionError:
    logging.getLogger("vllm.x").exception("worker %d failed", 7)
"""
RAISED = """
import multiprocessing
from lorikeet.kernels.quiet import one_line_failures
def child():
    one_line_failures(lambda: {started}, report)
    raise RuntimeError("no memory")
process = multiprocessing.get_context("fork").Process(target=child)
process.start()
process.join()
"""


def run(code: str, started: bool) -> str:
    command = [sys.executable, "-c", REPORT + code.format(started=started)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    return ended.stdout + ended.stderr


@pytest.mark.parametrize(
    ("code", "text"),
    [(LOGGED, "worker 7 failed (ZeroDivisionError: division by zero)"), (RAISED, "RuntimeError: no memory")],
    ids=["logged", "raised in a child"],
)
def test_before_the_start_a_failure_has_no_stack(code, text):
    shown = run(code, started=False)
    assert text in shown
    assert "Traceback" not in shown


@pytest.mark.parametrize("code", [LOGGED, RAISED], ids=["logged", "raised in a child"])
def test_after_the_start_stacks_show(code):
    assert "Traceback" in run(code, started=True)


def test_what_ends_a_child_is_reported():
    assert "reported: RuntimeError: no memory\n" in run(RAISED, started=False)
    assert "reported" not in run(RAISED, started=True)
    assert "reported" not in run(LOGGED, started=False)
