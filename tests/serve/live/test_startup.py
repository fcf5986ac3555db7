"""What the shared server said of itself while it started, polled every 0.2 s."""

from prometheus_client.parser import text_string_to_metric_families

PHASES = {"import", "config", "engine_spawn", "device", "weights", "profile", "kv_cache", "kernel_warmup",
          "app", "adapters", "ready", "other"}  # fmt: skip


def samples(text: str, name: str) -> dict[tuple[str, ...], float]:
    """Label values → value of every sample called `name`."""
    return {
        tuple(sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    }


def test_it_answers_soon_and_lives_throughout(server):
    assert server.polls[0].seconds < 10  # importing FastAPI; the socket listens before that
    assert all(poll.livez == 200 for poll in server.polls)
    assert len(server.polls) > 20


def test_it_is_never_ready_before_a_completion_works(server):
    assert [poll.completion for poll in server.polls if poll.readyz == 200] == [200]
    before = [poll for poll in server.polls if poll.readyz != 200]
    assert {poll.readyz for poll in before} == {503}
    assert {poll.completion for poll in before} <= {503, 200}  # 200: it became ready between the two


def test_metrics_parse_and_one_state_is_set_at_every_poll(server):
    for poll in server.polls:
        states = samples(poll.metrics, "lorikeet_state")
        assert sum(states.values()) == 1
        assert len(states) == 4


# A phase seems to run until its end is read, a moment after it was written.
READ_LATE_S = 0.05


def test_phases_only_grow(server):
    seen: dict[tuple[str, ...], float] = {}
    for poll in server.polls:
        now = samples(poll.metrics, "lorikeet_startup_phase_seconds")
        for key, seconds in seen.items():
            if "other" not in key:  # time moves from `other` to a phase whose first line was just read
                assert now[key] >= seconds - READ_LATE_S, key
        seen = now
    assert {key[0] for key in seen} >= PHASES


def test_phases_and_other_add_up_to_the_time_to_ready(server):
    text = server.metrics()
    phases = samples(text, "lorikeet_startup_phase_seconds")
    total = samples(text, "lorikeet_startup_seconds")[()]
    assert abs(sum(phases.values()) - total) < 0.01 * total
    assert phases["other", "api"] < 0.25 * total
    ready_after_s = server.polls[-1].seconds
    assert abs(total - ready_after_s) < 2  # against the test's own clock, from fork to the ready poll


def test_status_names_the_running_phase(server):
    phases = [poll.status["startup"]["phase"] for poll in server.polls]
    assert {"import", "engine_spawn"} <= set(phases)
    assert server.get("/status.json").json()["state"] == "ready"
    assert "<title>Lorikeet</title>" in server.get("/status").text


def test_our_folders_are_no_top_level_packages_in_any_process(server):
    # Started in the repository's root without PYTHONSAFEPATH, where they would be found first.
    notes = [
        line
        for line in server.get("/status.json").json()["startup"]["decisions"]
        if line["phase"] == "plugin"
    ]
    assert {note["process"] for note in notes} == {"api", "engine", "worker"}
    assert [note["detail"]["top_level"] for note in notes] == [[]] * len(notes)


def test_status_says_what_was_decided_on_flashinfers_autotune_and_why(server):
    kernels = server.get("/status.json").json()["kernels"]
    assert (kernels["autotune"]["outcome"], kernels["autotune"]["reason"]) == ("stock", "capability")
    assert {family["in_use"] for family in kernels["families"]} == {False}  # none of them runs on a CPU
    autotune = samples(server.metrics(), "lorikeet_flashinfer_autotune")
    assert autotune == {("stock", "capability"): 1.0}
