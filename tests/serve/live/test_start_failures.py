"""Starts that can't succeed: exit code, one line that says what to do, no traceback."""

import time


def last_line(server) -> str:
    lines = [line for line in server.log.read_text().splitlines() if line.startswith("lorikeet: ")]
    return next(line for line in lines if not line.startswith("lorikeet: ended "))


def fails(server, within_s: float) -> str:
    begin = time.monotonic()
    code = server.process.wait(within_s)
    assert code not in (0, None)
    log = server.log.read_text()
    assert "Traceback" not in log, log[-4000:]
    assert time.monotonic() - begin < within_s
    return last_line(server)


def test_a_path_without_a_model(launch):
    line = fails(launch("serve", "/no/such/model"), within_s=5)
    assert "/no/such/model" in line
    assert "name a folder" in line


def test_a_port_in_use(server, launch):
    line = fails(launch("demo", port=server.port), within_s=5)
    assert str(server.port) in line
    assert "--port" in line


def test_a_certificate_that_is_not_there(launch):
    line = fails(
        launch("demo", "--ssl-certfile", "/no/cert.pem", "--ssl-keyfile", "/no/key.pem"), within_s=10
    )
    assert "--ssl-certfile" in line


def test_an_unknown_setting(launch):
    line = fails(launch("demo", LORIKEET_DRAIN_SECONDS="5"), within_s=5)
    assert "LORIKEET_DRAIN_SECONDS" in line
    assert "LORIKEET_DRAIN_S" in line


def test_a_bad_argument(launch):
    line = fails(launch("demo", "--no-such-argument"), within_s=60)  # knowable once vLLM is imported
    assert "--no-such-argument" in line
    assert "--help" in line


def test_a_model_hub_that_cannot_be_reached(launch):
    line = fails(launch("serve", "nobody/no-such-model"), within_s=90)
    assert "nobody/no-such-model" in line or "hub" in line


def test_too_little_memory(launch):
    line = fails(launch("demo", "--kv-cache-memory-bytes", str(2**50)), within_s=200)
    assert "memory" in line
    assert "--kv-cache-memory-bytes" in line
