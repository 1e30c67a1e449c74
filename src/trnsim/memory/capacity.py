"""The capacity of a memory in bytes, and its source."""

from __future__ import annotations

from trnsim.arch import NeuronCore
from trnsim.memory.storage import Memory


def capacity_bytes(core: NeuronCore, memory: Memory) -> int:
    """Bytes per partition of an on-chip memory; bytes of the logical core's HBM."""
    if memory is Memory.SBUF:
        return int(core.sbuf_partition_bytes)
    if memory is Memory.PSUM:
        return core.psum_banks * core.psum_bank_bytes
    return int(core.hbm_bytes)


def capacity_source(core: NeuronCore, memory: Memory) -> str:
    """The source of `capacity_bytes`."""
    facts = {Memory.SBUF: core.sbuf_partition_bytes, Memory.PSUM: core.psum_bank_bytes}
    return facts.get(memory, core.hbm_bytes).provenance.source
