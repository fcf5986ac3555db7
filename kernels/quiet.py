"""Start-up failures as one line each instead of tracebacks; once started, tracebacks show as ever."""

import logging
import sys
import traceback
from collections.abc import Callable
from typing import Any


def one_line_failures(started: Callable[[], bool], report: Callable[[str], None]) -> None:
    """While `started()` is false, log and print exceptions of this process without their stacks.

    Two ways lead a stack to the log: a record's exc_info, and multiprocessing, which prints what ends a
    child's main function; that one is also given to `report`, as "Type: message". Idempotent; for processes
    that Lorikeet's server owns.
    """
    make_record = logging.getLogRecordFactory()
    if getattr(make_record, "one_line", False):
        return

    def make_short_record(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = make_record(*args, **kwargs)
        if record.exc_info and not started():
            error = record.exc_info[1]
            record.msg, record.args = f"{record.getMessage()} ({type(error).__name__}: {error})", ()
            record.exc_info = None
        return record

    make_short_record.one_line = True  # type: ignore[attr-defined]
    logging.setLogRecordFactory(make_short_record)
    print_stack = traceback.print_exc

    def print_exc(*args: Any, **kwargs: Any) -> None:
        if started():
            print_stack(*args, **kwargs)
        else:
            text = "".join(traceback.format_exception_only(sys.exception()))
            print(text, end="", file=sys.stderr)
            report(text.strip())

    traceback.print_exc = print_exc
