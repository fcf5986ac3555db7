"""`kill -9` of the engine during a stream."""

import time

import psutil


def test_the_death_of_the_engine_ends_streams_and_the_server(victim, in_background):
    events: list[str] = []

    def read() -> None:
        import httpx

        body = {
            "model": "smollm2-135m",
            "prompt": "1",
            "max_tokens": 1500,
            "ignore_eos": True,
            "stream": True,
        }
        with httpx.stream("POST", f"{victim.url}/v1/completions", json=body, timeout=60) as answer:
            events.extend(line for line in answer.iter_lines() if line)

    reading = in_background(read)
    time.sleep(2)
    below = victim.descendants()
    killed = time.monotonic()
    victim.engine_core().kill()
    while victim.get_status() == 200:
        assert time.monotonic() - killed < 2
        time.sleep(0.02)
    reading.join(10)
    assert not reading.is_alive()
    assert any('"error"' in event for event in events)
    assert victim.process.wait(10) == 1
    assert time.monotonic() - killed < 10
    assert psutil.wait_procs(below, timeout=3)[1] == []
