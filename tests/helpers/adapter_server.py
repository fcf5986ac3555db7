"""A running server with keys and a watched folder, and the few things that tests ask of it."""

import hashlib
import json
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from bad_adapters import CASES, GOOD, LINKS, config, make
from openai import OpenAI

BASE = "smollm2-135m"
PIRATE = GOOD.parent / "pirate"
ADMIN, CLIENT, FEW = "admin-key-0123456789", "client-key-0123456789", "few-key-0123456789"
CHAT = [{"role": "user", "content": "What is the capital of France?"}]
READY_S = 400


@dataclass
class AdapterServer:
    """Around conftest's RunningServer."""

    running: Any
    folder: Path  # watched
    root: Path  # the admin API may load from here
    keys_file: Path

    @property
    def url(self) -> str:
        return self.running.url

    def client(self, key: str = CLIENT) -> OpenAI:
        return OpenAI(base_url=f"{self.url}/v1", api_key=key, max_retries=0, timeout=120)

    def admin(self, method: str, path: str, body: dict | None = None) -> httpx.Response:
        headers = {"authorization": f"Bearer {ADMIN}"}
        return httpx.request(method, self.url + path, json=body, headers=headers, timeout=60)

    def put(self, name: str, folder: Path, **options) -> httpx.Response:
        return self.admin("PUT", f"/admin/adapters/{name}", {"path": str(folder), **options})

    def delete(self, name: str) -> httpx.Response:
        return self.admin("DELETE", f"/admin/adapters/{name}")

    def state(self, name: str) -> str:
        answer = self.admin("GET", f"/admin/adapters/{name}")
        return answer.json()["state"] if answer.status_code == 200 else ""

    def wait_for(self, name: str, state: str, within_s: float = 15) -> None:
        end = time.monotonic() + within_s
        while self.state(name) != state:
            assert time.monotonic() < end, self.admin("GET", f"/admin/adapters/{name}").text
            time.sleep(0.05)

    def text(self, model: str, num_tokens: int = 10, key: str = CLIENT) -> str:
        """The greedy answer to CHAT."""
        answer = self.client(key).chat.completions.create(**self.request(model, num_tokens))
        assert answer.model == model
        return answer.choices[0].message.content

    def stream(self, model: str, num_tokens: int):
        """The same as chunks of text, one a token or a few."""
        for chunk in self.client().chat.completions.create(**self.request(model, num_tokens), stream=True):
            if chunk.choices and chunk.choices[0].delta.content:
                yield chunk.choices[0].delta.content

    def request(self, model: str, num_tokens: int) -> dict:
        options = {"ignore_eos": True}
        return {
            "model": model,
            "messages": CHAT,
            "max_tokens": num_tokens,
            "temperature": 0,
            "extra_body": options,
        }

    def samples(self, name: str) -> dict[tuple[str, ...], float]:
        """Label values → value."""
        from prometheus_client.parser import text_string_to_metric_families

        return {
            tuple(sample.labels.values()): sample.value
            for family in text_string_to_metric_families(self.running.metrics())
            for sample in family.samples
            if sample.name == name
        }


def start(launch, folder: Path, *arguments: str, **environment: str) -> AdapterServer:
    """Start the demo with a watched folder that holds every bad adapter and one good, or what is there."""
    server = AdapterServer(None, folder / "watched", folder / "root", folder / "keys.json")
    if not server.folder.exists():
        server.folder.mkdir()
        server.root.mkdir()
        shutil.copytree(GOOD, server.folder / "watched-json")
        for case in [*CASES, *LINKS]:
            make(case, server.folder)
        write_keys(server.keys_file)
    server.running = launch(
        *(
            "demo",
            "--dtype",
            "float32",
            "--max-num-seqs",
            "8",
            "--max-num-queued-reqs",
            "80",
            "--max-loras",
            "2",
        ),
        *("--max-lora-rank", "16", *arguments),
        LORIKEET_ADAPTERS=str(server.folder),
        LORIKEET_ADAPTER_ROOTS=str(server.root),
        LORIKEET_STORE_DIR=str(folder / "store"),
        LORIKEET_KEYS_FILE=str(server.keys_file),
        LORIKEET_ADMIN_KEY=ADMIN,
        LORIKEET_API_KEY=CLIENT,
        **environment,
    )
    return server


def write_keys(file: Path, *more: str) -> None:
    """A key that sees one adapter, and others that see all."""
    keys = [{"name": "few", "sha256": sha256(FEW), "adapters": ["pirate"]}]
    keys += [{"name": f"more-{number}", "sha256": sha256(key)} for number, key in enumerate(more)]
    file.write_text(json.dumps({"keys": keys}))


def sha256(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def variant(root: Path, name: str, source: Path = GOOD, **changes) -> Path:
    """A good adapter whose configuration differs, and so its text."""
    folder = root / name
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder)
    config(**changes)(folder)
    return folder
