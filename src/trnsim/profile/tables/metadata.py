"""Metadata and Warning: the run of the tables, and columns without data.

Source: aws-neuron-sdk tools/neuron-explorer/profile-schema-reference.rst, the tables of that name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from trnsim.arch.peaks import hbm_stack_bytes_per_s
from trnsim.profile.analysis.summary import Summary
from trnsim.profile.measures.schema import VERSION, Column, Table
from trnsim.timing import Timeline

_HZ_PER_GHZ: Final = 1e9
_NS_PER_S: Final = 1e9
_MISSING_DATA: Final = "Missing Data"


def metadata(timelines: Sequence[Timeline], title: str) -> Table:
    """One row: the core, its clocks and bandwidths, and that nothing here was measured."""
    core = timelines[0].program.core
    last_s = max(timeline.device_time_s for timeline in timelines)
    base_hz = core.features.base_clock_hz
    row = {
        "profile_schema_version": VERSION,
        "num_physical_cores": len(timelines),
        "vnc_enabled": len(timelines) > 1,
        "first_hw_timestamp": 0,
        "last_hw_timestamp": round(last_s * _NS_PER_S),
        "dma_ddr_bandwidth": float(core.dma_bytes_per_s),
        "num_dma_engines_per_neuroncore": int(core.dma_engines),
        "hbm_ddr_bandwidth": hbm_stack_bytes_per_s(core),
        "tensor_engine_num_rows": int(core.pe_rows),
        "tensor_engine_num_cols": int(core.pe_columns),
        "tensor_engine_clock_freq": core.tensor_clock_hz / _HZ_PER_GHZ,
        "vector_engine_clock_freq": core.vector_clock_hz / _HZ_PER_GHZ,
        "vector_engine_num_channels": int(core.partitions),
        "scalar_engine_clock_freq": core.scalar_clock_hz / _HZ_PER_GHZ,
        "scalar_engine_num_channels": int(core.partitions),
        "gpsimd_engine_clock_freq": core.gpsimd_clock_hz / _HZ_PER_GHZ,
        "neuroncore_clock_freq": None if base_hz is None else base_hz / _HZ_PER_GHZ,
        "ticks_per_nanosec": 1,
        "profile_name": title,
        "is_simulation": True,
    }
    return {name: [value] for name, value in row.items()}


def warnings(tables: Mapping[str, Table], summary: Summary, hazards: Sequence[str]) -> Table:
    """One row for each table with columns that are null throughout, and for each hazard."""
    rows = [(message, "Hazard") for message in hazards]
    rows += [
        (f"Summary.{name}: {reason}", _MISSING_DATA) for name, reason in summary.missing.items()
    ]
    for name, table in tables.items():
        unknown_columns = [column for column, values in table.items() if _is_null(values)]
        if unknown_columns and name != "Summary":
            rows.append(
                (
                    f"{name}: the emulator knows nothing of {', '.join(unknown_columns)}",
                    _MISSING_DATA,
                )
            )
    return {"message": [row[0] for row in rows], "category": [row[1] for row in rows]}


def _is_null(values: Column) -> bool:
    return len(values) > 0 and all(value is None for value in values)
