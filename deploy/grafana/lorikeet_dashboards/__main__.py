"""Write the dashboards' JSON files: `make dashboards`."""

from pathlib import Path

from lorikeet_dashboards.dashboards import render_all

FOLDER = Path(__file__).parents[1] / "dashboards"

for name, text in render_all().items():
    (FOLDER / name).write_text(text, encoding="utf-8")
