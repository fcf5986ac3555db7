"""What keys vLLM's compile cache to our operators, for `--additional-config`.

vLLM keys compiled graphs by its own configuration and sources. Without this, a graph compiled around
stock operators is reused when ours are installed, and ours never run, with no error.
"""

import hashlib
from importlib.metadata import version

from lorikeet.kernels.schema import SCHEMA

DISTRIBUTION = "lorikeet-serve"


def fingerprint(mode: str) -> str:
    """`mode` is how the kernels are asked for: auto, on or off."""
    if mode == "off":
        return "off"
    return hashlib.sha256(f"{version(DISTRIBUTION)} {SCHEMA} {mode}".encode()).hexdigest()[:16]
