"""The catalogue's rules, with an engine that only remembers; the real one is in tests/serve/live."""

import asyncio
import shutil

import bad_adapters
import pytest
from bad_adapters import CASES, GOOD, config, make
from memory_engine import Memory

from lorikeet.serve.adapters.catalogue import Catalogue
from lorikeet.serve.adapters.entry import AdapterState, Source
from lorikeet.serve.adapters.errors import AdapterConflictError, AdapterNotFoundError, AdapterRefusedError
from lorikeet.serve.adapters.files import Place
from lorikeet.serve.adapters.metrics import AdapterCollector, AdapterMetrics
from lorikeet.serve.adapters.preflight import Limits
from lorikeet.serve.adapters.reason import Reason
from lorikeet.serve.adapters.setup import Setup, Wish
from lorikeet.serve.adapters.store import open_store
from lorikeet.serve.demo.adapter_paths import adapter_paths
from lorikeet.serve.request_scope import RequestScope, current_scope

PIRATE = adapter_paths()["pirate"]


class Request:
    """What vLLM's API layer hands to the engine client."""

    def __init__(self, version):
        self.lora_name, self.lora_int_id = version.name, version.lora_id


@pytest.fixture
def engine():
    return Memory()


@pytest.fixture
def setup(base, tmp_path):
    store = open_store(tmp_path / "store", tmp_path, tmp_path)
    return Setup(store, base, Limits(max_rank=16), frozenset({"base"}), max_versions=4)


@pytest.fixture
def catalogue(registry, metrics):
    made = Catalogue(AdapterMetrics(registry), metrics, default_limit=None)
    registry.register(AdapterCollector(made.entries))
    return made


@pytest.fixture
def run(catalogue, setup, engine):
    """run(async function of nothing) after the catalogue took its engine, until its tasks end."""

    def run(body):
        async def whole():
            await catalogue.attach(setup, engine)
            result = await body()
            await asyncio.sleep(0.15)  # drains end
            return result

        return asyncio.run(whole())

    return run


def wish(folder=GOOD, source=Source.API, **options) -> Wish:
    return Wish(source, Place(folder), str(folder), **options)


def test_an_adapter_is_listed_once_it_is_loaded(run, catalogue, engine, registry):
    entry = run(lambda: catalogue.put("legal", wish()))
    assert entry.state is AdapterState.SERVING
    assert catalogue.listed["legal"] == "listed-1"
    assert list(catalogue.listed) == ["legal"]
    assert engine.loaded[0].path.name == entry.version.digest
    assert registry.get_sample_value("lorikeet_adapter_state", {"adapter": "legal", "state": "serving"}) == 1
    assert registry.get_sample_value("lorikeet_adapter_loads_total", {"outcome": "ok", "reason": ""}) == 1


def test_twenty_parallel_puts_of_the_same_load_once(run, catalogue, engine):
    async def body():
        return await asyncio.gather(*(catalogue.put("legal", wish()) for _ in range(20)))

    assert len({id(entry) for entry in run(body)}) == 1
    assert engine.num_added == 1


@pytest.mark.parametrize("case", CASES[::6], ids=lambda case: case.name)
def test_a_bad_one_is_refused_and_leaves_nothing(run, catalogue, engine, setup, registry, tmp_path, case):
    folder = make(case, tmp_path)

    async def body():
        with pytest.raises(AdapterRefusedError, match="legal"):
            await catalogue.put("legal", wish(folder))

    run(body)
    assert catalogue.documents() == []
    assert engine.loaded == []
    assert [*(setup.store.folder / "staging").iterdir(), *(setup.store.folder / "adapters").iterdir()] == []
    labels = {"outcome": "refused", "reason": case.reason}
    assert registry.get_sample_value("lorikeet_adapter_loads_total", labels) == 1


def test_the_folders_bad_one_is_shown_with_its_reason(run, catalogue, tmp_path):
    folder = make(CASES[0], tmp_path)

    async def body():
        with pytest.raises(AdapterRefusedError):
            await catalogue.put("legal", wish(folder, Source.FOLDER))

    run(body)
    (shown,) = catalogue.documents()
    assert (shown["state"], "1024" in shown["reason"]) == ("refused", True)
    assert "legal" not in catalogue.listed


def test_a_replacement_is_whole_and_the_old_weights_stay_while_they_are_used(run, catalogue, engine):
    async def body():
        await catalogue.put("legal", wish())
        old = engine.loaded[0]
        with catalogue.lease(Request(old)) as held:
            await catalogue.put("legal", wish(PIRATE))
            await asyncio.sleep(0.2)
            assert held is old
            assert len(engine.loaded) == 2
            assert catalogue.listed["legal"] == "listed-2"

    run(body)
    assert [version.rank for version in engine.loaded] == [8]


def test_a_refused_replacement_leaves_the_old_one_serving(run, catalogue, engine, tmp_path):
    folder = make(CASES[0], tmp_path)

    async def body():
        await catalogue.put("legal", wish())
        with pytest.raises(AdapterRefusedError):
            await catalogue.put("legal", wish(folder))
        engine.failure = AdapterRefusedError("adapter 'legal': no", Reason.ENGINE)
        with pytest.raises(AdapterRefusedError, match="no"):
            await catalogue.put("legal", wish(PIRATE))

    run(body)
    assert catalogue.listed["legal"] == "listed-1"
    assert catalogue.documents()[0]["state"] == "serving"
    assert "replacement was refused" in catalogue.documents()[0]["reason"]


def test_removal_takes_the_name_at_once_and_the_weights_after_the_last_request(
    run, catalogue, engine, metrics, registry
):
    async def body():
        await catalogue.put("legal", wish())
        metrics.requests.labels("legal", "ok").inc()
        metrics.requests_in_flight.labels("legal").inc()
        version = engine.loaded[0]
        with catalogue.lease(Request(version)):
            entry = await catalogue.remove("legal")
            assert "legal" not in catalogue.listed
            await asyncio.sleep(0.2)
            assert (entry.state, engine.loaded) == (AdapterState.DRAINING, [version])
        await asyncio.sleep(0.2)
        assert (entry.state, engine.loaded) == (AdapterState.REMOVED, [])
        with pytest.raises(LookupError), catalogue.lease(Request(version)):
            pass
        assert await catalogue.remove("legal") is entry  # again: the same answer

    run(body)
    names = {sample.labels.get("adapter") for family in registry.collect() for sample in family.samples}
    assert "legal" not in names
    with pytest.raises(AdapterNotFoundError):
        run(lambda: catalogue.remove("never"))


def test_a_name_can_come_back_while_its_old_weights_drain(run, catalogue, engine):
    async def body():
        await catalogue.put("legal", wish())
        with catalogue.lease(Request(engine.loaded[0])):
            await catalogue.remove("legal")
            entry = await catalogue.put("legal", wish())
        await asyncio.sleep(0.2)
        return entry

    assert run(body).state is AdapterState.SERVING
    assert [version.lora_id for version in engine.loaded] == [2]
    assert engine.loaded[0].path.is_dir()


def test_more_than_the_engine_keeps_is_refused(run, catalogue):
    async def body():
        for number in range(4):
            await catalogue.put(f"legal-{number}", wish())
        with pytest.raises(AdapterRefusedError, match="--max-cpu-loras allows 4"):
            await catalogue.put("legal-5", wish())

    run(body)
    assert len(catalogue.listed) == 4


def test_the_folders_adapters_are_changed_in_the_folder(run, catalogue):
    async def body():
        await catalogue.put("legal", wish(source=Source.FOLDER))
        for change in (catalogue.put("legal", wish(PIRATE)), catalogue.remove("legal")):
            with pytest.raises(AdapterConflictError, match="comes from folder"):
                await change

    run(body)


def test_a_request_holds_its_version_and_counts_against_the_limit(run, catalogue, engine):
    async def body():
        catalogue.listed.busy = lambda name, limit: OverflowError(f"{name} {limit}")
        await catalogue.put("legal", wish(max_concurrency=1))
        first, second = RequestScope(), RequestScope()
        token = current_scope.set(first)
        assert catalogue.listed["legal"] == "listed-1"
        await catalogue.put("legal", wish(PIRATE))
        assert catalogue.listed["legal"] == "listed-1"  # the same request, the same weights
        current_scope.set(second)
        with pytest.raises(OverflowError, match="legal 1"):
            catalogue.listed["legal"]
        first.close()
        assert catalogue.listed["legal"] == "listed-2"
        second.close()
        current_scope.reset(token)

    run(body)
    assert catalogue.documents()[0]["requests"] == 0
    assert [version.num_leases for version in engine.loaded] == [0]


def test_a_request_sees_only_what_its_key_may(run, catalogue):
    async def body():
        await catalogue.put("legal", wish())
        await catalogue.put("secret", wish())
        token = current_scope.set(RequestScope(visible=frozenset({"legal"})))
        assert list(catalogue.listed) == ["legal"]
        assert catalogue.listed.values() == ["listed-1"]
        assert "secret" not in catalogue.listed
        with pytest.raises(KeyError):
            catalogue.listed["secret"]
        current_scope.reset(token)

    run(body)


def test_pinned_adapters_are_touched(run, catalogue, engine):
    async def body():
        await catalogue.put("pinned", wish(pinned=True))
        await catalogue.put("other", wish(PIRATE))
        assert engine.loaded[-1].name == "other"
        await catalogue.tick()

    run(body)
    assert engine.loaded[-1].name == "pinned"


def test_files_of_a_removed_adapter_go_after_a_while(run, catalogue, setup, monkeypatch):
    monkeypatch.setattr("lorikeet.serve.adapters.versions.DISCARD_AFTER_S", 0.0)

    async def body():
        await catalogue.put("legal", wish())
        await catalogue.put("other", wish(PIRATE))
        await catalogue.remove("legal")
        await asyncio.sleep(0.2)
        await catalogue.tick()

    run(body)
    (left,) = (setup.store.folder / "adapters").iterdir()
    assert left.name == catalogue.entries["other"].version.digest


def test_a_check_reports_and_changes_nothing(run, catalogue, setup, engine, tmp_path):
    folder = shutil.copytree(GOOD, tmp_path / "unsound")
    config(use_dora=True)(folder)
    report = run(lambda: catalogue.check("legal", Place(folder)))
    assert report.problems[0].reason == "feature"
    assert (catalogue.documents(), engine.loaded) == ([], [])
    assert list((setup.store.folder / "staging").iterdir()) == []


def test_a_changed_source_never_reaches_the_engine(run, catalogue, engine, tmp_path):
    folder = shutil.copytree(GOOD, tmp_path / "source")
    entry = run(lambda: catalogue.put("legal", wish(folder)))
    bad_adapters.with_value(float("nan"))(folder)
    shutil.rmtree(folder)
    assert (engine.loaded[0].path / bad_adapters.WEIGHTS).is_file()
    assert str(folder) not in str(entry.version.path)
