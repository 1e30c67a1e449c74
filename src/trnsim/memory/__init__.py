"""HBM, SBUF and PSUM: storages, access patterns, tiles, and the bytes written so far."""

from trnsim.memory.access import AccessPattern
from trnsim.memory.allocation import CoreMemory, HbmBytes, SharedTensors
from trnsim.memory.box import Box
from trnsim.memory.bytemask import ByteMap, ByteMask
from trnsim.memory.capacity import capacity_bytes, capacity_source
from trnsim.memory.index import Index, Register, ScalarIndex, SnakeIndex, VectorIndex
from trnsim.memory.layout import TileLayout
from trnsim.memory.storage import Memory, Storage
from trnsim.memory.tile import Tile

__all__ = [
    "AccessPattern",
    "Box",
    "ByteMap",
    "ByteMask",
    "CoreMemory",
    "HbmBytes",
    "Index",
    "Memory",
    "Register",
    "ScalarIndex",
    "SharedTensors",
    "SnakeIndex",
    "Storage",
    "Tile",
    "TileLayout",
    "VectorIndex",
    "capacity_bytes",
    "capacity_source",
]
