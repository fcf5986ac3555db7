import subprocess
import sys
import time

import psutil

from lorikeet.serve.processes import kill_descendants

SLEEP = "import time; time.sleep(60)"
CHILD = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', '{SLEEP}']).wait()"


def test_children_and_grandchildren_are_killed():
    with subprocess.Popen([sys.executable, "-c", CHILD]) as child:
        end = time.monotonic() + 10
        while not (below := psutil.Process(child.pid).children()):
            assert time.monotonic() < end
            time.sleep(0.01)
        begin = time.monotonic()
        assert kill_descendants() >= 2
        child.wait(5)
    assert time.monotonic() - begin < 5
    assert not below[0].is_running()
