"""What a server knew of its adapters when it was killed, found again by the next one."""

import shutil

import adapter_server as servers
from adapter_server import BASE, variant
from bad_adapters import CASES, make


def test_the_next_server_has_them_from_the_store_alone(adapter_server, launch, tmp_path):
    folder = variant(adapter_server.root, "kept", lora_alpha=16)
    assert adapter_server.put("kept", folder, pinned=True, max_concurrency=7).status_code == 200
    expected = adapter_server.text("kept")
    # The store as it is at this moment, with the first server still writing to it: as after a kill.
    shutil.copytree(adapter_server.folder.parent / "store", tmp_path / "store")
    shutil.rmtree(folder)
    for name in ("watched", "root"):
        (tmp_path / name).mkdir()
    servers.write_keys(tmp_path / "keys.json")
    again = servers.start(launch, tmp_path)
    again.running.wait_until_ready()
    document = again.admin("GET", "/admin/adapters/kept").json()
    assert (document["state"], document["pinned"], document["max_concurrency"]) == ("serving", True, 7)
    assert again.text("kept") == expected
    names = {card.id for card in again.client().models.list()}
    assert names == {BASE, "pirate", "json", "kept"}  # those of the folder went with it
    again.running.stop()
    adapter_server.delete("kept")


def test_strict_ends_the_start_before_the_model_loads(launch, tmp_path):
    make(CASES[0], tmp_path)
    server = launch("demo", LORIKEET_ADAPTERS=str(tmp_path), LORIKEET_STRICT_ADAPTERS="1")
    assert server.process.wait(60) == 1
    log = server.log.read_text()
    assert f"adapter '{CASES[0].name}'" in log.splitlines()[-1]
    assert "weights" not in log
    assert "Traceback" not in log
