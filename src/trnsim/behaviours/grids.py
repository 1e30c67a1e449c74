"""Grids of tiles and blocks."""

from __future__ import annotations

from typing import Final

from trnsim.behaviours.behaviour import Behaviour

TENSOR_DATA: Final = Behaviour(
    name="tensor-data",
    since="0.7",
    rule="`data` of a tensor is the tensor itself, as `data` of a grid is a tensor",
    otherwise="tensors have no attribute `data`",
    instead="use the tensor itself",
    source="nki.language.NkiTileGrid, Examples",
)
