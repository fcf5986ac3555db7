"""Logging of our own process: one format, to standard error."""

import logging

FORMAT = "%(levelname)s %(asctime)s [lorikeet] %(message)s"
DATES = "%m-%d %H:%M:%S"

logger = logging.getLogger("lorikeet")


def set_up_logging(access_log: bool) -> None:
    """Send our log and uvicorn's errors, with `access_log` its requests too, to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(FORMAT, DATES))
    for name, level in (
        ("lorikeet", logging.INFO),
        ("uvicorn", logging.WARNING),
        ("uvicorn.access", logging.INFO if access_log else logging.WARNING),
    ):
        configured = logging.getLogger(name)
        configured.handlers = [handler]
        configured.setLevel(level)
        configured.propagate = False
