"""Whether FlashInfer's saved measurements can be used, and the damaged ones put aside before vLLM reads them.

vLLM tunes anew where a file is no JSON; where it is JSON of another form, FlashInfer raises, and every start
would end there.
"""

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lorikeet.kernels.autotune_decision import CacheState

METADATA = "_metadata"
OBJECTS = (METADATA, "_records")
_logger = logging.getLogger("vllm.lorikeet")


def cache_state(path: Path, current: Callable[[], Mapping[str, Any]]) -> CacheState:
    """Look at one rank's file; `current` gives what FlashInfer would write as metadata now."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return "absent"
    except OSError:
        return "unwritable"
    except ValueError:
        return "damaged"
    try:
        data = json.loads(text)
    except ValueError:
        return "damaged"
    if not _is_well_formed(data):
        return "damaged"
    saved = data.get(METADATA)
    if saved is None:
        return "mismatched"
    now = current()
    return "complete" if all(saved.get(key) in (value, "*") for key, value in now.items()) else "mismatched"


def put_aside(path: Path) -> None:
    """Rename a damaged file, so that it is measured anew and can still be looked at."""
    aside = path.with_name(f"{path.name}.damaged")
    try:
        path.replace(aside)
    except OSError as exc:
        _logger.warning("%s is damaged and can't be moved (%s)", path, exc)
    else:
        _logger.warning("%s is damaged: now %s, and FlashInfer measures anew", path, aside.name)


def _is_well_formed(data: Any) -> bool:
    if not isinstance(data, dict) or not all(isinstance(data.get(key, {}), dict) for key in OBJECTS):
        return False
    return all(
        isinstance(value, list) and len(value) == 2 and isinstance(value[0], str)
        for key, value in data.items()
        if not key.startswith("_")
    )
