"""A NeuronCore as data: capacities, array sizes, clocks, features, constants of the timing model.

Counts are exact; rates carry a spread (`facts.Evidence.spread`). `trnsim.arch.targets` has the
values.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Final

from trnsim.arch.features import Features
from trnsim.behaviours import LATEST, Behaviour, Version
from trnsim.facts import Count, Fact, Rate

_RATIO_SUFFIXES: Final = ("_speedup", "_slowdown")


@dataclass(frozen=True, kw_only=True)
class NeuronCore:
    """One NeuronCore. Units stand in the field names; every number but `generation` is a `Fact`.

    A speedup or slowdown of 1 means none. An efficiency is a part of the bandwidth of a copy.

    Attributes:
        moving_free_max: maximum columns of the moving tile of a matmul.
        fp32_passes: passes over the Tensor Engine's array for a product in FP32; one in BF16.
        fp32_onezero_speedup: speedup of FP32 matmuls whose stationary tile holds zeros and ones.
        background_transpose_speedup: speedup of transposes that run beside the next instruction.
        pe_tile_minimum: minimum rows or columns of a tile of the Tensor Engine's array.
        vector_port_engines: engines that take turns at a port of SBUF or PSUM, the Vector Engine
            and one other; 1 if it has a port of its own.
        minimum_interval_cycles: the least interval between two instructions of an engine.
        access_latency_cycles: the time from an instruction's start to its first access of a memory.
        strided_slowdown: slowdown of accesses whose elements are more than 16 bytes apart.
        scalar_dependent_s: latency beyond the access latency until a reader of a Scalar Engine's
            result can start, as profiles show it; `tensor_dependent_s` for the Tensor Engine.
        engine_semaphore_s: the time in which another engine notices a semaphore.
        tensor_ramp_s: the time in which a Tensor Engine that was idle rises to full utilisation.
        tensor_ramp_start: the part of full utilisation at the start of that ramp.
        dma_paired_bytes_per_s: bandwidth of a core of a logical core of two (LNC=2).
        dma_issue_s: the time for which a transfer occupies the engine that issues it, if hardware
            makes its descriptors (DGE); `dma_static_issue_s` if the compiler made them.
        dma_start_s: the time from the issue to the first byte.
        dma_stagger_s: the time from the start of the first DMA engine to that of the last.
        dma_end_s: the time from the last byte to the start of a reader.
        dma_short_run_bytes: length of contiguous bytes up to which they move at
            `dma_short_run_bytes_per_s`.
        logical_core_max: maximum cores of a logical core.
        register_s: the time of an instruction on registers.
        launch_s: the fixed time of a kernel's launch; `paired_launch_s` on a logical core of two.
        nki: the version of NKI whose rules programs of the core follow.
        is_simulated: True if values are those of AWS's simulator of that version, not the chip's.
    """

    name: str
    generation: int
    features: Features
    # Memories
    partitions: Count
    quadrant_partitions: Count
    sbuf_partition_bytes: Count
    psum_banks: Count
    psum_bank_bytes: Count
    hbm_bytes: Count
    # Tensor Engine
    pe_rows: Count
    pe_columns: Count
    moving_free_max: Count
    tensor_clock_hz: Rate
    fp32_passes: Count
    fp32_onezero_speedup: Rate
    fp32_transpose_speedup: Rate
    background_transpose_speedup: Rate
    pe_tile_minimum: Count
    fp8_double_row_contraction: Count
    # The other engines
    vector_clock_hz: Rate
    vector_port_engines: Count
    scalar_clock_hz: Rate
    gpsimd_clock_hz: Rate
    vector_transpose_partitions: Count
    minimum_interval_cycles: Rate
    access_latency_cycles: Rate
    strided_slowdown: Rate
    accumulator_read_cycles: Rate
    activation_table_load_s: Rate
    scalar_dependent_s: Rate
    tensor_dependent_s: Rate
    stationary_load_columns_per_cycle: Rate
    gpsimd_overhead_cycles: Rate
    gpsimd_gather_step_cycles: Rate
    gpsimd_gather_overhead_cycles: Rate
    gpsimd_topk_cycles_per_element: Rate
    gpsimd_rsqrt_cycles_per_element: Rate
    bn_stats_free_max: Count
    search_free_max: Count
    vector_reciprocal_cycles_per_element: Rate
    vector_aggregate_cycles_per_statistics: Rate
    vector_exponential_elements_per_cycle: Rate
    vector_random_values_per_cycle: Rate
    vector_16bit_copy_speedup: Rate
    vector_8bit_copy_speedup: Rate
    vector_16bit_strided_speedup: Rate
    vector_16bit_tensor_tensor_speedup: Rate
    scalar_16bit_copy_speedup: Rate
    vector_quantize_elements_per_cycle: Rate
    engine_semaphore_s: Rate
    tensor_ramp_s: Rate
    tensor_ramp_start: Rate
    # DMA
    dma_engines: Count
    dma_bytes_per_s: Rate
    dma_paired_bytes_per_s: Rate
    dma_queues: Count
    dma_issue_s: Rate
    dma_static_issue_s: Rate
    dma_start_s: Rate
    dma_stagger_s: Rate
    dma_end_s: Rate
    dma_packet_bytes: Count
    dma_descriptor_s: Rate
    dma_short_run_bytes: Count
    dma_short_run_bytes_per_s: Rate
    dma_transpose_efficiency: Rate
    dma_transpose_on_chip_efficiency: Rate
    dma_compute_efficiency: Rate
    dma_read_add_write_efficiency: Rate
    # Control
    logical_core_max: Count
    register_s: Rate
    core_barrier_s: Rate
    launch_s: Rate
    paired_launch_s: Rate
    # Language
    nki: Version = LATEST
    is_simulated: bool = False

    @property
    def version(self) -> str:
        """The core's generation as in its name, "v3"; `nki` is the version of the language."""
        return self.name.rpartition("-")[2]

    def paired(self) -> NeuronCore:
        """The same core as one of the two of a logical core (LNC=2), which share an HBM stack."""
        return self._paired

    @cached_property
    def _paired(self) -> NeuronCore:
        return replace(
            self, dma_bytes_per_s=self.dma_paired_bytes_per_s, launch_s=self.paired_launch_s
        )

    def with_nki(self, nki: Version, *, is_simulated: bool = False) -> NeuronCore:
        """The same core, whose programs follow the rules of another version of NKI."""
        if nki is self.nki and is_simulated == self.is_simulated:
            return self
        variant = self._variants.get((nki.name, is_simulated))
        if variant is None or variant.nki is not nki:
            variant = replace(self, nki=nki, is_simulated=is_simulated)
            self._variants[nki.name, is_simulated] = variant
        return variant

    @cached_property
    def _variants(self) -> dict[tuple[str, bool], NeuronCore]:
        """The results of `with_nki`, which each run asks for."""
        return {}

    def does(self, simulated: Behaviour) -> bool:
        """True if the core behaves as `simulated`, a row of the table of behaviours, says.

        The chip always does; AWS's simulator does in the versions of NKI that the row names.
        """
        return not self.is_simulated or self.nki.follows(simulated)

    @property
    def is_paired(self) -> bool:
        """True if it is one of the two cores of a logical core."""
        return self.logical_core_max > 1 and self == self.paired()

    def facts(self) -> dict[str, Fact]:
        """Field name -> fact, for provenance reports."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Count | Rate)}

    def varying(self) -> dict[str, Rate]:
        """The rates that vary between draws: all but speedups and slowdowns of 1."""
        rates = {name: fact for name, fact in self.facts().items() if isinstance(fact, Rate)}
        return {
            name: rate
            for name, rate in rates.items()
            if not (name.endswith(_RATIO_SUFFIXES) and float(rate) == 1.0)
        }
