"""Grids of tiles and of blocks: `nl.tiles`, `nl.blocks`, `nl.alloc_tiles`, `nl.alloc_blocks`.

Source: nki.language.NkiGrid, NKI 0.7.
"""

from trnsim.nki.language.grids.allocation import alloc_blocks, alloc_tiles
from trnsim.nki.language.grids.grid import NkiBlockGrid, NkiGrid, NkiTileGrid, blocks, tiles

__all__ = [
    "NkiBlockGrid",
    "NkiGrid",
    "NkiTileGrid",
    "alloc_blocks",
    "alloc_tiles",
    "blocks",
    "tiles",
]
