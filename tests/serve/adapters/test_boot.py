"""What a start makes of the folder, the arguments and the store, before there is an engine."""

import shutil
from argparse import Namespace

import pytest
from bad_adapters import CASES, GOOD, config, make
from prometheus_client import CollectorRegistry
from transformers import AutoConfig

from lorikeet.serve.adapters.boot import Boot
from lorikeet.serve.adapters.catalogue import Catalogue
from lorikeet.serve.adapters.metrics import AdapterMetrics
from lorikeet.serve.adapters.store import Record
from lorikeet.serve.demo.adapter_paths import adapter_paths
from lorikeet.serve.errors import StartError
from lorikeet.serve.settings import Settings

PIRATE = adapter_paths()["pirate"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "watched").mkdir()
    return tmp_path / "watched"


@pytest.fixture
def boot(tmp_path, model_dir, metrics, folder):
    """boot(modules, **settings) → (arguments as they became, catalogue, setup)."""

    def boot(*modules, max_lora_rank=None, modalities=None, **settings):
        args = Namespace(
            model=str(model_dir), served_model_name=["base"], max_loras=8, max_cpu_loras=None,
            max_lora_rank=max_lora_rank, default_mm_loras=modalities,
            lora_modules=[Namespace(name=name, path=str(path)) for name, path in modules],
        )  # fmt: skip
        made = Settings(store_dir=tmp_path / "store", adapters=folder, **settings)
        hf_config = AutoConfig.from_pretrained(model_dir)
        catalogue = Catalogue(AdapterMetrics(CollectorRegistry()), metrics, None)
        setup = Boot(made, args, tmp_path).check(Namespace(hf_config=hf_config, dtype="bfloat16"), catalogue)
        return args, catalogue, setup

    return boot


def states(catalogue) -> dict[str, str]:
    return {document["name"]: document["state"] for document in catalogue.documents()}


def test_good_ones_are_ready_and_the_bad_ones_say_why(boot, folder):
    shutil.copytree(GOOD, folder / "legal")
    make(CASES[0], folder)
    _, catalogue, setup = boot(("pirate", PIRATE), ("gone", "/no/such/folder"))
    assert states(catalogue) == {
        "legal": "ready", "pirate": "ready", "gone": "refused", CASES[0].name: "refused"
    }  # fmt: skip
    assert "/no/such/folder" in catalogue.entries["gone"].reason
    assert catalogue.entries["legal"].version.path.is_dir()
    assert list((setup.store.folder / "staging").iterdir()) == []


def test_strict_ends_the_start(boot, folder):
    make(CASES[0], folder)
    with pytest.raises(StartError, match="LORIKEET_STRICT_ADAPTERS"):
        boot(strict_adapters=True)


@pytest.mark.parametrize(
    ("rank", "chosen"), [(1, 16), (16, 16), (17, 32), (100, 128), (300, 320), (9999, 512)]
)
def test_the_rank_limit_is_the_smallest_that_fits(boot, folder, rank, chosen):
    config(r=rank)(shutil.copytree(GOOD, folder / "legal"))
    args, *_ = boot()
    assert args.max_lora_rank == chosen
    assert args.max_cpu_loras >= 1024


def test_a_given_rank_limit_stays(boot):
    args, catalogue, _ = boot(("pirate", PIRATE), max_lora_rank=1)
    assert args.max_lora_rank == 1
    assert "rank 8 is above the limit of 1" in catalogue.entries["pirate"].reason


def test_an_argument_goes_before_the_folder(boot, folder):
    shutil.copytree(GOOD, folder / "pirate")
    _, catalogue, _ = boot(("pirate", PIRATE))
    assert catalogue.entries["pirate"].version.rank == 8
    assert catalogue.entries["pirate"].source == "argument"


def test_the_base_models_name_is_refused(boot):
    _, catalogue, _ = boot(("base", PIRATE))
    assert states(catalogue) == {"base": "refused"}


def test_a_content_types_name_is_for_the_adapter_that_the_operator_gave_it(boot):
    _, catalogue, _ = boot(("image", PIRATE), modalities={"audio": str(PIRATE)})
    assert states(catalogue) == {"image": "refused", "audio": "ready"}


def test_what_requests_added_is_there_again_and_its_settings_are(boot, tmp_path):
    _, catalogue, setup = boot(("pirate", PIRATE))
    record = Record("legal", catalogue.entries["pirate"].version.digest, "api", "/gone/since", True, 3)
    setup.store.save([record])
    unlock(setup)
    _, catalogue, _ = boot()
    entry = catalogue.entries["legal"]
    assert (entry.state, entry.pinned, entry.max_concurrency, entry.origin) == (
        "ready",
        True,
        3,
        "/gone/since",
    )


def test_the_last_good_content_serves_where_the_folders_is_broken(boot, folder):
    legal = shutil.copytree(GOOD, folder / "legal")
    _, catalogue, setup = boot()
    digest = catalogue.entries["legal"].version.digest
    setup.store.save([catalogue.entries["legal"].record()])
    unlock(setup)
    (legal / "adapter_config.json").write_text("{")
    _, catalogue, _ = boot()
    entry = catalogue.entries["legal"]
    assert (entry.state, entry.version.digest) == ("ready", digest)
    assert "last good content" in entry.reason


def test_a_damaged_stored_copy_is_refused(boot, folder):
    _, catalogue, setup = boot(("pirate", PIRATE))
    version = catalogue.entries["pirate"].version
    setup.store.save([Record("legal", version.digest, "api", "somewhere")])
    weights = version.path / "adapter_model.safetensors"
    weights.chmod(0o644)
    with weights.open("r+b") as file:
        file.truncate(30_000)
    unlock(setup)
    _, catalogue, _ = boot()
    assert states(catalogue) == {"legal": "refused"}


def test_a_watched_folder_that_is_not_there_ends_the_start(boot, folder):
    folder.rmdir()
    with pytest.raises(StartError, match="LORIKEET_ADAPTERS"):
        boot()


def unlock(setup) -> None:
    """As the end of the first server's process does."""
    import os

    os.close(setup.store._lock)
