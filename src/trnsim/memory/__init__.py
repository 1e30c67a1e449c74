"""HBM, SBUF and PSUM as bytes: storages, access patterns, tiles, what has been written."""

from trnsim.memory.access import AccessPattern
from trnsim.memory.allocation import CoreMemory
from trnsim.memory.box import Box
from trnsim.memory.index import Index, Register, ScalarIndex, SnakeIndex, VectorIndex
from trnsim.memory.storage import ByteMask, Memory, Storage
from trnsim.memory.tile import Tile

__all__ = [
    "AccessPattern",
    "Box",
    "ByteMask",
    "CoreMemory",
    "Index",
    "Memory",
    "Register",
    "ScalarIndex",
    "SnakeIndex",
    "Storage",
    "Tile",
    "VectorIndex",
]
