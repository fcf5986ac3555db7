"""Which names an adapter may have: they become model names, label values and parts of paths."""

import re
from collections.abc import Collection

from lorikeet.serve.adapters.errors import AdapterRefusedError
from lorikeet.serve.adapters.reason import Reason
from lorikeet.serve.adapters.report import shown

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,95}")
# vLLM puts an adapter called like a part of a chat message to work on every base request that has one.
RESERVED = frozenset({"text", "image", "audio", "video", "input", "file", "refusal", "thinking", "tool"})


def check_name(name: str, base_names: Collection[str], modalities: Collection[str] = ()) -> None:
    """Check what an adapter is to be called.

    Args:
        name: the adapter's.
        base_names: those of the base model.
        modalities: reserved names that the operator gave adapters on purpose, by `--default-mm-loras`.

    Raises:
        AdapterRefusedError: it mustn't be called so.
    """
    if not NAME.fullmatch(name):
        raise AdapterRefusedError(
            f"adapter '{shown(name)}': the name is not 1 to 96 of A-Z a-z 0-9 . _ : - "
            "beginning with a letter or a digit; choose another",
            Reason.NAME,
        )
    if name in base_names or name in RESERVED - set(modalities):
        owner = "the base model's" if name in base_names else "a content type's"
        raise AdapterRefusedError(f"adapter '{name}': the name is {owner}; choose another", Reason.NAME)
