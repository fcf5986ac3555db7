"""Find the demo adapters that are installed with the package."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent / "adapters"


def adapter_paths() -> dict[str, Path]:
    """Name → PEFT folder of every demo adapter, sorted by name."""
    return {path.parent.name: path.parent for path in sorted(_FOLDER.glob("*/adapter_config.json"))}
