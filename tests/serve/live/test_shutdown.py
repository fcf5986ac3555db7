"""SIGTERM, and what becomes of requests and processes."""

import signal
import time

import httpx
import psutil

BASE = "smollm2-135m"


def stream(server, num_tokens: int, done: list[str]) -> None:
    """Read a whole stream into `done`, chunk texts first, then the finish reason."""
    options = {"max_tokens": num_tokens, "stream": True, "extra_body": {"ignore_eos": True}}
    for chunk in server.client.completions.create(model=BASE, prompt="1 2 3", **options):
        done.append(chunk.choices[0].text)
        if chunk.choices[0].finish_reason:
            done.append(chunk.choices[0].finish_reason)


def wait_for(condition, within_s: float) -> None:
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_sigterm_drains_then_exits_0_leaving_nothing(victim, in_background):
    texts: list[str] = []
    reading = in_background(lambda: stream(victim, 64, texts))
    wait_for(lambda: len(texts) > 2, within_s=30)
    below = victim.descendants()
    victim.process.send_signal(signal.SIGTERM)
    wait_for(lambda: victim.get_status() == 503, within_s=1)
    assert victim.get("/readyz").json()["state"] == "draining"
    refused = httpx.post(f"{victim.url}/v1/completions", json={"model": BASE, "prompt": "1"}, timeout=10)
    assert refused.status_code == 503
    assert int(refused.headers["retry-after"]) > 0
    assert refused.json()["error"]["code"] == 503
    reading.join(60)
    assert texts[-1] == "length"
    assert victim.process.wait(30) == 0
    assert psutil.wait_procs(below, timeout=3)[1] == []
    assert "Traceback" not in victim.log.read_text()


def test_a_second_sigterm_ends_it_at_once(victim, in_background):
    texts: list[str] = []

    def read_until_cut() -> None:
        try:
            stream(victim, 1500, texts)
        except Exception as exc:  # whatever the client makes of a cut connection
            texts.append(f"cut: {type(exc).__name__}")

    in_background(read_until_cut)
    wait_for(lambda: len(texts) > 2, within_s=30)
    below = victim.descendants()
    victim.process.send_signal(signal.SIGTERM)
    wait_for(lambda: victim.get_status() == 503, within_s=2)
    victim.process.send_signal(signal.SIGTERM)
    assert victim.process.wait(5) == 128 + signal.SIGTERM
    assert psutil.wait_procs(below, timeout=3)[1] == []


def test_sigterm_while_starting_exits_0_leaving_nothing(launch):
    server = launch("demo")
    wait_for(server.engine_core, within_s=300)
    below = server.descendants()
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(10) == 0
    assert "Traceback" not in server.log.read_text()
    assert psutil.wait_procs(below, timeout=3)[1] == []


def test_a_killed_server_leaves_no_engine_behind(victim):
    below = victim.descendants()
    victim.process.kill()
    assert psutil.wait_procs(below, timeout=15)[1] == []
