"""`nki.isa.constants`: the enumerations of `nki.isa` under a second module name."""

from trnsim.isa import (
    DgeMode,
    DmaEngine,
    Engine,
    MatmulPerfMode,
    NcVersion,
    OobMode,
    ReduceCmd,
)

engine = Engine
dge_mode = DgeMode
dma_engine = DmaEngine
oob_mode = OobMode
matmul_perf_mode = MatmulPerfMode
reduce_cmd = ReduceCmd
nc_version = NcVersion

__all__ = [
    "dge_mode",
    "dma_engine",
    "engine",
    "matmul_perf_mode",
    "nc_version",
    "oob_mode",
    "reduce_cmd",
]
