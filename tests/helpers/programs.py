"""Programs that tests need beside Python, and the mark that leaves tests out where they are missing."""

import shutil

import pytest

PROMETHEUS = shutil.which("prometheus")
PROMTOOL = shutil.which("promtool")

needs_prometheus = pytest.mark.skipif(
    not (PROMETHEUS and PROMTOOL), reason="no prometheus and promtool: Debian's package prometheus has them"
)
