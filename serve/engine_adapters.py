"""vLLM's side of adapters: loading them into the engine, and its list of their names."""

from http import HTTPStatus
from typing import Any

from lorikeet.serve.adapters.entry import Version
from lorikeet.serve.adapters.errors import AdapterRefusedError
from lorikeet.serve.adapters.reason import Reason


class LoadedAdapters:
    """The adapters inside the engine, and vLLM's list of their names: what the catalogue changes both by."""

    def __init__(self, client: Any, app: Any, listed: Any) -> None:
        self._client = client
        self._models = app.state.openai_serving_models
        self._models.lora_requests = listed
        listed.busy = self.busy

    async def add(self, version: Version) -> None:
        """Load a version into the engine; it takes a slot and can be used at once.

        Raises:
            AdapterRefusedError: the engine can't load it, or has no place for some of it.
        """
        from vllm.lora.request import LoRARequest

        version.lora_id = self._models.lora_id_counter.inc(1)
        # vLLM tells adapters apart by name, in a batch and in its prefix cache: no two versions share one.
        unique = f"{version.name}@{version.digest[:16]}.{version.lora_id}"
        version.engine = LoRARequest(unique, version.lora_id, str(version.path))
        try:
            await self._client.add_lora(version.engine)
            places = await self._client.collective_rpc("place_of_adapter", args=(version.lora_id,))
            _check_places(version.name, places)
        except Exception as exc:  # whatever the worker raised, as its engine hands it on
            await self._client.remove_lora(version.lora_id)  # a failed load can leave half of it behind
            if isinstance(exc, AdapterRefusedError):
                raise
            reason = (str(exc) or type(exc).__name__).splitlines()[0][:300]
            message = f"adapter '{version.name}': the engine can't load it ({reason}); see the log"
            raise AdapterRefusedError(message, Reason.ENGINE) from exc
        version.listed = LoRARequest(version.name, version.lora_id, f"sha256:{version.digest}")

    async def remove(self, version: Version) -> None:
        """Free a version's slot and memory."""
        await self._client.remove_lora(version.lora_id)

    async def touch(self, version: Version) -> None:
        """Make a version the most recently used one, loading it into a slot where it has none."""
        await self._client.add_lora(version.engine)

    def gone(self, name: str) -> Exception:
        from vllm.exceptions import VLLMNotFoundError

        error: Exception = VLLMNotFoundError(f"The model `{name}` does not exist.")
        return error

    def busy(self, name: str, limit: int) -> Exception:
        from vllm.exceptions import GracefulHTTPError

        message = f"The adapter `{name}` has {limit} requests, as many as it may. Try again later."
        error: Exception = GracefulHTTPError(message, HTTPStatus.TOO_MANY_REQUESTS)
        return error


def _check_places(name: str, places: list[tuple[list[str], list[str]]]) -> None:
    """Workers hold parts of a model: what none of them has a module for is left out of every answer."""
    used = {module for worker_used, _ in places for module in worker_used}
    left = {module for _, worker_left in places for module in worker_left} - used
    if left or not used:
        found = f"has no module '{min(left)}'" if left else "uses none of its weights"
        raise AdapterRefusedError(
            f"adapter '{name}': the engine {found} ({len(left)} left out); use an adapter of this base model",
            Reason.TENSORS,
        )
