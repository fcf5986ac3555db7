"""An adapter's life on a real server: loaded, replaced and removed while requests run."""

import concurrent.futures
import itertools
import shutil
import time

import openai
import psutil
import pytest
from adapter_server import BASE, PIRATE, variant
from bad_adapters import GOOD


@pytest.fixture(scope="module")
def root(adapter_server):
    return adapter_server.root


@pytest.fixture
def legal(adapter_server, root):
    """`legal` answers as the demo's json does; gone at the end."""
    assert adapter_server.put("legal", variant(root, "legal")).status_code == 200
    yield "legal"
    adapter_server.delete("legal")


def memory(adapter_server) -> int:
    """Bytes that the server's processes hold."""
    processes = [psutil.Process(adapter_server.running.process.pid), *adapter_server.running.descendants()]
    return sum(process.memory_info().rss for process in processes)


def test_a_folder_dropped_in_is_a_model_and_goes_with_its_folder(adapter_server):
    folder = shutil.copytree(GOOD, adapter_server.folder / "dropped")
    adapter_server.wait_for("dropped", "serving")
    assert adapter_server.text("dropped") == adapter_server.text("json")
    shutil.copytree(PIRATE, folder, dirs_exist_ok=True)  # replaced in place
    end = time.monotonic() + 15
    while adapter_server.text("dropped") != adapter_server.text("pirate"):
        assert time.monotonic() < end
    shutil.rmtree(folder)
    adapter_server.wait_for("dropped", "removed")
    with pytest.raises(openai.NotFoundError):
        adapter_server.text("dropped")


def test_twenty_parallel_loads_of_one_name_are_one(adapter_server, root):
    folder = variant(root, "many")
    loads = adapter_server.samples("lorikeet_adapter_loads_total")["ok", ""]
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: adapter_server.put("many", folder), range(20)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["digest"] for answer in answers}) == 1
    assert adapter_server.samples("lorikeet_adapter_loads_total")["ok", ""] == loads + 1
    assert adapter_server.delete("many").json()["state"] == "removed"


def test_new_weights_under_a_name_never_meet_the_old_ones_cache(adapter_server, root, legal):
    first = adapter_server.text(legal)
    assert adapter_server.text(legal) == first  # from the prefix cache
    adapter_server.put(legal, PIRATE_IN_ROOT(root))
    assert adapter_server.text(legal) == adapter_server.text("pirate") != first
    adapter_server.put(legal, variant(root, "legal"))
    assert adapter_server.text(legal) == first


def test_a_replacement_during_a_stream_leaves_the_stream_its_weights(adapter_server, root, legal):
    expected = adapter_server.text(legal, 24)
    pieces = adapter_server.stream(legal, 24)
    text = "".join(itertools.islice(pieces, 5))
    assert adapter_server.put(legal, PIRATE_IN_ROOT(root)).status_code == 200
    assert adapter_server.text(legal) == adapter_server.text("pirate")
    assert text + "".join(pieces) == expected


def test_removal_during_a_stream_lets_it_finish_then_frees_the_slot(adapter_server, root, legal):
    expected = adapter_server.text(legal, 24)
    pieces = adapter_server.stream(legal, 24)
    text = "".join(itertools.islice(pieces, 10))
    answer = adapter_server.delete(legal)
    assert (answer.status_code, answer.json()["state"]) == (202, "draining")
    with pytest.raises(openai.NotFoundError):
        adapter_server.text(legal)
    assert text + "".join(pieces) == expected
    adapter_server.wait_for(legal, "removed")
    assert f'adapter="{legal}"' not in adapter_server.running.metrics()


def test_a_source_that_goes_after_loading_matters_to_nobody(adapter_server, root):
    folder = variant(root, "short-lived", lora_alpha=4)
    adapter_server.put("short-lived", folder)
    expected = adapter_server.text("short-lived")
    shutil.rmtree(folder)
    for model in ("json", "pirate", "watched-json"):  # takes its slot
        adapter_server.text(model, 1)
    assert adapter_server.text("short-lived") == expected
    adapter_server.delete("short-lived")


def test_a_limit_of_one_refuses_the_second_and_says_when_to_come_again(adapter_server, root, legal):
    adapter_server.admin("PUT", f"/admin/adapters/{legal}", {"max_concurrency": 1})
    pieces = adapter_server.stream(legal, 24)
    next(pieces)
    with pytest.raises(openai.RateLimitError) as caught:
        adapter_server.text(legal)
    assert int(caught.value.response.headers["retry-after"]) > 0
    assert legal in caught.value.body["message"]
    assert adapter_server.text("json")  # others go on
    list(pieces)
    assert adapter_server.text(legal)


def test_a_hundred_loads_and_unloads_leave_nothing(adapter_server, root):
    folders = [variant(root, f"cycle-{alpha}", lora_alpha=alpha) for alpha in (3, 5)]

    def cycle(number: int) -> None:
        name = f"cycle-{number % 10}"
        assert adapter_server.put(name, folders[number % 2]).status_code == 200
        assert adapter_server.delete(name).json()["state"] == "removed"

    for number in range(10):
        cycle(number)
    before = memory(adapter_server)
    series = adapter_server.running.metrics().count("\nlorikeet_")
    for number in range(100):
        cycle(number)
    assert memory(adapter_server) - before < 60e6  # 100 adapters left behind would be 290 MB in float32
    assert adapter_server.running.metrics().count("\nlorikeet_") == series


@pytest.fixture
def eight(adapter_server, root):
    """Names of eight adapters of two kinds, each with a scale of its own; gone at the end."""
    alphas = {"json": (4, 6, 9, 12), "pirate": (8, 12, 20, 24)}
    names = []
    for source, values in alphas.items():
        for alpha in values:
            names.append(f"{source}-{alpha}")
            folder = variant(root, names[-1], GOOD.parent / source, lora_alpha=alpha)
            assert adapter_server.put(names[-1], folder).status_code == 200
    yield names
    for name in names:
        adapter_server.delete(name)


def test_eight_adapters_on_two_slots_each_answer_as_alone(adapter_server, eight):
    models = [*eight, BASE]
    alone = {model: adapter_server.text(model, 4) for model in models}
    assert len(set(alone.values())) >= 3
    finished = "lorikeet_requests_total"
    before = adapter_server.samples(finished)
    asked = [models[number % len(models)] for number in range(64)]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        texts = list(pool.map(lambda model: adapter_server.text(model, 4), asked))
    assert [(m, t) for m, t in zip(asked, texts, strict=True) if t != alone[m]] == []
    after = adapter_server.samples(finished)
    grew = {model: after[model, "length"] - before[model, "length"] for model in models}
    assert grew == {model: asked.count(model) for model in models}


def PIRATE_IN_ROOT(root):  # noqa: N802 - reads as the constant it stands for
    return variant(root, "pirate-copy", PIRATE)
