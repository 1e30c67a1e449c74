"""The table of behaviours: the rows of all families, by name."""

from __future__ import annotations

from typing import Final

from trnsim.behaviours import (
    collectives,
    compiler,
    grids,
    instructions,
    language,
    names,
    scalars,
    scheduling,
    simulator,
    tensors,
)
from trnsim.behaviours.behaviour import Behaviour

_FAMILIES = (
    names,
    language,
    tensors,
    instructions,
    simulator,
    scalars,
    grids,
    collectives,
    compiler,
    scheduling,
)

TABLE: Final = {
    row.name: row
    for family in _FAMILIES
    for row in (*vars(family).values(), *getattr(family, "ROWS", ()))
    if isinstance(row, Behaviour)
}
"""Every behaviour by its name."""
