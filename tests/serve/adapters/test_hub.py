"""Fetching from a hub, against a small one of our own on this machine: the network is closed to tests."""

import http.server
import threading
from pathlib import Path

import pytest
from bad_adapters import CONFIG, GOOD, WEIGHTS

from lorikeet.serve.adapters.errors import AdapterRefusedError
from lorikeet.serve.adapters.files import digest_of
from lorikeet.serve.adapters.hub import HubAdapter, check_hub_adapter, fetch

COMMIT = "0123456789abcdef0123456789abcdef01234567"
MAX = 10**8


class Hub(http.server.BaseHTTPRequestHandler):
    """Answers /owner/name/resolve/COMMIT/FILE as a hub does."""

    def do_HEAD(self):
        self.answer(with_body=False)

    def do_GET(self):
        self.answer(with_body=True)

    def answer(self, with_body):
        self.server.asked.append(self.path)
        owner, name, _, revision, *file = self.path.strip("/").split("/")
        path = GOOD / "/".join(file)
        if (owner, name, revision) != ("owner", "json", COMMIT) or not path.is_file():
            self.send_response(404)
            known = (owner, name) == ("owner", "json")
            code = "EntryNotFound" if known and revision == COMMIT else "RepoNotFound"
            self.send_header("X-Error-Code", code)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        content = path.read_bytes()
        self.send_response(200)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{path.name}"')
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if with_body:
            self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture
def hub(monkeypatch):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.asked = []
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.05))
    thread.start()
    from huggingface_hub import constants

    url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(constants, "ENDPOINT", url)
    monkeypatch.setattr(
        constants, "HUGGINGFACE_CO_URL_TEMPLATE", url + "/{repo_id}/resolve/{revision}/{filename}"
    )
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_repository_at_a_commit_is_fetched_whole(hub, tmp_path):
    fetch("legal", HubAdapter("owner/json", COMMIT), tmp_path, MAX)
    assert sorted(path.name for path in tmp_path.iterdir()) == [CONFIG, WEIGHTS]
    assert digest_of(tmp_path) == digest_of(GOOD)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_an_unknown_repository_is_a_refusal_in_one_line(hub, tmp_path):
    with pytest.raises(AdapterRefusedError, match="owner/none@") as caught:
        fetch("legal", HubAdapter("owner/none", COMMIT), tmp_path, MAX)
    assert "\n" not in str(caught.value)
    assert caught.value.reason == "source"


def test_a_file_that_is_too_large_is_not_downloaded(hub, tmp_path):
    with pytest.raises(AdapterRefusedError, match="LORIKEET_MAX_ADAPTER_BYTES"):
        fetch("legal", HubAdapter("owner/json", COMMIT), tmp_path, 100)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("repository", "revision", "allowed", "says"),
    [
        ("owner/json", COMMIT, False, "LORIKEET_ALLOW_HUB"),
        ("owner/json", None, True, "commit"),
        ("owner/json", "main", True, "commit"),
        ("owner/json", COMMIT.upper(), True, "commit"),
        ("json", COMMIT, True, "no repository"),
        ("../../etc", COMMIT, True, "no repository"),
        ("https://x/y", COMMIT, True, "no repository"),
    ],
)
def test_what_must_not_be_fetched_is_refused_before_anything_connects(
    hub, repository, revision, allowed, says
):
    with pytest.raises(AdapterRefusedError, match=says):
        check_hub_adapter("legal", repository, revision, allowed)
    assert hub.asked == []


def test_a_checked_one_names_its_origin():
    assert check_hub_adapter("legal", "owner/json", COMMIT, True).origin == f"owner/json@{COMMIT}"
    assert Path(GOOD).is_dir()
