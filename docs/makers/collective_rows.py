"""src/trnsim/fabric/published.json: published times of collectives with the estimate's errors.

usage: collective_rows.py

A row of a time that may be of several instances is taken to be of the first, as on the page.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from collective_fit import TABLES, Judged, in_sample

from trnsim.fabric.constants import has_described_algorithms

FILE: Final = Path(__file__).parents[2] / "src" / "trnsim" / "fabric" / "published.json"


def text() -> str:
    """The file: a row a line."""
    judged = [case for cases in in_sample().values() for case in cases]
    lines = [json.dumps(_fields(case)) for case in judged]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def _fields(case: Judged) -> dict[str, Any]:
    row = case.row
    table = TABLES[row.table]
    place = table.places[0]
    return {
        "id": row.id,
        "kind": row.kind,
        "ranks": row.ranks,
        "nbytes": row.nbytes,
        "is_first": not has_described_algorithms(place.chip),
        "nodes": place.nodes,
        "floor": table.floor.name,
        "error": round(case.error, 2),
        "is_inside": case.is_inside,
    }


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
