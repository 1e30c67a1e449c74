"""HBM, SBUF and PSUM as bytes: storages, access patterns, tiles, what has been written."""

from trnsim.memory.access import AccessPattern
from trnsim.memory.allocation import CoreMemory
from trnsim.memory.storage import ByteMask, Memory, Storage
from trnsim.memory.tile import Box, Tile

__all__ = ["AccessPattern", "Box", "ByteMask", "CoreMemory", "Memory", "Storage", "Tile"]
