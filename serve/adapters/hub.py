"""Fetches an adapter from a model hub, at a revision that can't move, where the operator allows it."""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from lorikeet.serve.adapters.errors import AdapterRefusedError
from lorikeet.serve.adapters.files import FILES
from lorikeet.serve.adapters.reason import Reason
from lorikeet.serve.adapters.report import shown

REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
REVISION = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class HubAdapter:
    """A repository at one commit."""

    repository: str
    revision: str

    @property
    def origin(self) -> str:
        return f"{self.repository}@{self.revision}"


def check_hub_adapter(name: str, repository: str, revision: str | None, is_allowed: bool) -> HubAdapter:
    """Refuse what must not be fetched, before anything connects.

    Raises:
        AdapterRefusedError: fetching is off, or repository or revision isn't one.
    """
    if not is_allowed:
        raise _refused(name, "fetching from a model hub is off", "set LORIKEET_ALLOW_HUB=1, or give a path")
    if not REPOSITORY.fullmatch(repository):
        raise _refused(name, f"'{shown(repository)}' is no repository", "give owner/name")
    if not REVISION.fullmatch(revision or ""):
        found = f"revision {shown(revision)} is not a commit of 40 hexadecimal digits"
        raise _refused(name, found, "a branch can change under the server: name a commit")
    return HubAdapter(repository, revision or "")


def fetch(name: str, adapter: HubAdapter, target: Path, max_bytes: int) -> None:
    """Download the adapter's two files into `target`; blocks.

    Raises:
        AdapterRefusedError: the hub doesn't answer, has no such thing, or it is too large.
    """
    import httpx
    from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, OfflineModeIsEnabled

    for file_name in FILES:
        place = (adapter.repository, file_name)
        try:
            num_bytes = get_hf_file_metadata(hf_hub_url(*place, revision=adapter.revision)).size or 0
            if num_bytes > max_bytes:
                found = f"{file_name} has {num_bytes} bytes, above the limit of {max_bytes}"
                raise _refused(name, found, "raise LORIKEET_MAX_ADAPTER_BYTES")
            hf_hub_download(*place, revision=adapter.revision, local_dir=target)
        except EntryNotFoundError:
            continue  # the check says which file is missing
        except (HfHubHTTPError, OfflineModeIsEnabled, httpx.HTTPError, OSError) as exc:
            reason = shown(str(exc).splitlines()[0] if str(exc) else type(exc).__name__)
            found = f"{adapter.origin} can't be fetched ({reason})"
            raise _refused(name, found, "check the names, HF_TOKEN and the network") from exc
    shutil.rmtree(target / ".cache", ignore_errors=True)


def _refused(name: str, found: str, remedy: str) -> AdapterRefusedError:
    return AdapterRefusedError(f"adapter '{shown(name)}': {found}; {remedy}", Reason.SOURCE)
