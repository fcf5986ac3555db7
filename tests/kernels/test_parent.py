"""With three real processes: this one, a parent that is killed, and its child."""

import subprocess
import sys
import time

import psutil

PARENT = """
import multiprocessing, threading, time
from lorikeet.kernels.parent import end_with_parent
def child():
    end_with_parent()
    end_with_parent()
    assert sum(thread.name == "end_with_parent" for thread in threading.enumerate()) == 1
    print("watching", flush=True)
    time.sleep(60)
spawned = threading.Thread(target=lambda: multiprocessing.get_context("fork").Process(target=child).start())
spawned.start()
spawned.join()
time.sleep(60)
"""


def test_a_child_outlives_the_thread_that_spawned_it_but_not_the_process():
    with subprocess.Popen([sys.executable, "-W", "ignore", "-c", PARENT], stdout=subprocess.PIPE) as parent:
        assert parent.stdout.readline() == b"watching\n"
        child = psutil.Process(parent.pid).children()[0]
        time.sleep(0.3)
        assert child.is_running()
        parent.kill()
        child.wait(3)
