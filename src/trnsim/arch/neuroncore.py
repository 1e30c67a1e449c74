"""NeuronCores as data: capacities, array sizes, clocks and the constants of the timing model.

One `NeuronCore` per generation, frozen, with no behaviour. Counts are exact; rates carry a spread
(`facts.Kind.spread`) that becomes the P10 to P90 of an estimate. Constants that AWS gives for v2
alone are marked *assumed* for v3 and v4.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, fields, replace
from typing import Any, Final

import numpy as np

from trnsim.errors import BadInput
from trnsim.facts import Count, Fact, Kind, Rate, assumed, count, derived, documented, measured

_V2: Final = "aws-neuron-sdk nki/guides/architecture/trainium_inferentia2_arch.rst"
_V3: Final = "aws-neuron-sdk nki/guides/architecture/trainium2_arch.rst"
_V4: Final = "aws-neuron-sdk nki/guides/architecture/trainium3_arch.rst"
_MATMUL: Final = "nki.isa.nc_matmul, Tile size"
_SHARED: Final = "aws-neuron-sdk nki/api/nki.api.shared.rst"
_DMA: Final = "aws-neuron-sdk nki/guides nki-dma-bandwidth-guide.rst"
_THROTTLING: Final = "aws-neuron-sdk tools/neuron-explorer overview-summary-page.rst, throttling"
_DGE: Final = "aws-neuron-sdk nki/deep-dives/nki-dge.rst, hwdge"
_FITTED: Final = "fitted to public kernels' published times by `make accuracy`: docs/accuracy.md"
_COSTS: Final = "aws-neuron-sdk@0521004c general/nki/api/nki/isa/__init__.py (SDK 2.26)"
_LOGICAL: Final = "aws-neuron-sdk logical-neuroncore-config.rst"
_KIB: Final = 1024
_PAIR: Final = 2


@dataclass(frozen=True, kw_only=True)
class NeuronCore:
    """One NeuronCore. Units stand in the field names; every number is a `Fact`."""

    name: str
    generation: int
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
    accumulator_read_cycles: Rate
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
    dma_issue_s: Rate
    dma_start_s: Rate
    dma_end_s: Rate
    dma_descriptor_s: Rate
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
    unmodelled_factor: Rate

    def paired(self) -> NeuronCore:
        """The same core as one of the two of a logical core (LNC=2), which share an HBM stack.

        Raises:
            BadInput: for a core that has no logical cores of two.
        """
        if self.logical_core_max < _PAIR:
            raise BadInput(
                f"a kernel launched as kernel[2] on {self.name}; legal: kernel[1], as it has no "
                "logical cores of two",
                fix="launch the kernel without [2], or run it for trn2 or trn3",
                source=self.logical_core_max.provenance.source,
            )
        return replace(
            self, dma_bytes_per_s=self.dma_paired_bytes_per_s, launch_s=self.paired_launch_s
        )

    def facts(self) -> dict[str, Fact]:
        """Field name -> fact, for provenance reports."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Count | Rate)}

    def sampled(self, draw: int) -> NeuronCore:
        """The same core with every rate drawn from a lognormal around its value.

        A fact's draws depend on its name and on `draw` alone, so that a new fact moves no other's.
        """
        drawn: dict[str, Any] = {
            name: Rate(fact * _factor(draw, name, fact.provenance.kind.spread), fact.provenance)
            for name, fact in self.facts().items()
            if isinstance(fact, Rate)
        }
        return replace(self, **drawn)


def _factor(draw: int, name: str, spread: float) -> float:
    rng = np.random.default_rng([draw, zlib.crc32(name.encode())])
    return float(rng.lognormal(0.0, spread))


NEURONCORE_V2: Final = NeuronCore(
    name="NeuronCore-v2",
    generation=2,
    partitions=count(128, f"{_V2}: SBUF and PSUM have 128 partitions"),
    quadrant_partitions=count(32, f"{_V2}: start partition rules"),
    sbuf_partition_bytes=count(192 * _KIB, f"{_V2}: 24 MiB, 128 partitions of 192 KiB"),
    psum_banks=count(8, f"{_V2}: each partition of PSUM has 8 banks"),
    psum_bank_bytes=count(2 * _KIB, f"{_V2}: banks of 2 KiB"),
    hbm_bytes=count(16 * _KIB**3, "trainium.rst: 32 GiB for 2 NeuronCores", Kind.DERIVED),
    pe_rows=count(128, f"{_V2}: Tensor Engine is a 128x128 array"),
    pe_columns=count(128, f"{_V2}: Tensor Engine is a 128x128 array"),
    moving_free_max=count(512, f"{_MATMUL}: 512 on v2 and v3"),
    tensor_clock_hz=documented(2.8e9, f"{_V2}: 2.8 GHz"),
    fp32_passes=count(4, f"{_V2}: FP32 costs four times BF16"),
    fp32_onezero_speedup=documented(2, "nki.isa.nc_matmul, is_stationary_onezero: up to 2x"),
    fp32_transpose_speedup=documented(1, f"{_V2}: no transpose mode"),
    background_transpose_speedup=documented(1, f"{_V2}: one instruction at a time"),
    pe_tile_minimum=count(64, "nki.isa.nc_matmul, Tiling mode: 2x 64 rows from v2 on"),
    fp8_double_row_contraction=count(128, "nki.isa.nc_matmul: no performance mode on v2"),
    vector_clock_hz=documented(1.12e9, f"{_V2}: 1.12 GHz"),
    vector_port_engines=count(2, f"{_V2}: SBUF with GpSimd, PSUM with the Scalar Engine"),
    scalar_clock_hz=documented(1.4e9, f"{_V2}: 1.4 GHz"),
    gpsimd_clock_hz=documented(1.4e9, f"{_V2}: 1.4 GHz"),
    vector_transpose_partitions=count(32, "nki.isa.nc_transpose: Vector Engine up to [32, 32]"),
    minimum_interval_cycles=documented(64, f"{_SHARED}: MIN_II is roughly 64 engine cycles"),
    access_latency_cycles=documented(60, f"{_V2}: about 60 cycles to start an SBUF/PSUM access"),
    accumulator_read_cycles=documented(64, f"{_COSTS}: activation_reduce max(64, N) + 64"),
    gpsimd_overhead_cycles=documented(150, f"{_COSTS}: iota, affine_select 150 + N"),
    gpsimd_gather_step_cycles=documented(4, f"{_COSTS}: local_gather, t is 4"),
    gpsimd_gather_overhead_cycles=documented(28, f"{_COSTS}: local_gather, 28 + t * elements"),
    gpsimd_topk_cycles_per_element=documented(4, "nki.isa.topk: 4*n + K cycles"),
    gpsimd_rsqrt_cycles_per_element=documented(4, f"{_SHARED}: rsqrt 4x slower than ScalarE"),
    bn_stats_free_max=count(512, "nki.isa.bn_stats: at most 512 elements per partition"),
    search_free_max=count(16384, "nki.isa.max8, nc_find_index8: 8 to 16,384 elements"),
    vector_reciprocal_cycles_per_element=documented(8, f"{_SHARED}: max(MIN_II, 8*N)"),
    vector_aggregate_cycles_per_statistics=documented(13, f"{_COSTS}: bn_aggr 13*(N/3)"),
    vector_exponential_elements_per_cycle=documented(1, f"{_V4}: new in v4, not before"),
    vector_random_values_per_cycle=documented(1, f"{_COSTS}: dropout max(MIN_II, N)"),
    vector_16bit_copy_speedup=documented(1, f"{_V2}: no performance mode"),
    vector_16bit_strided_speedup=documented(1, f"{_V2}: no performance mode"),
    vector_16bit_tensor_tensor_speedup=documented(1, f"{_V2}: no performance mode"),
    scalar_16bit_copy_speedup=documented(1, f"{_V4}: Scalar Engine, 2x is new in v4"),
    vector_quantize_elements_per_cycle=documented(1, f"{_V2}: no quantize_mx before v4"),
    tensor_ramp_s=documented(1e-9, f"{_THROTTLING}: Trn2 and Trn3 alone, so at once on v2"),
    tensor_ramp_start=documented(1, f"{_THROTTLING}: Trn2 and Trn3 alone, so full on v2"),
    engine_semaphore_s=derived(60e-9, "264-cycle dependent interval less its duration, 1.4 GHz"),
    dma_engines=count(16, f"{_V2}: 16 DMA engines per core"),
    dma_bytes_per_s=documented(272e9, f"{_DMA}: 17 B/ns sustained on each of 16 engines"),
    dma_paired_bytes_per_s=documented(272e9, f"{_V2}: no logical cores on v2; as alone"),
    dma_issue_s=assumed(0.6e-6, "documented for Trn2, taken over"),
    dma_start_s=measured(1.3e-6, f"{_DMA}: semaphore to start, about 1300 ns"),
    dma_end_s=measured(0.3e-6, "nki-dma-intro figures: DMA end to consumer start, about 0.3 us"),
    dma_descriptor_s=measured(12e-9, "nki-dma-intro figures: 8 descriptors of 256 B in 97 ns"),
    dma_transpose_efficiency=assumed(0.25, "v2 load_transpose2d is 'much lower', no number"),
    dma_transpose_on_chip_efficiency=assumed(0.25, "as from HBM on v2; no number published"),
    dma_compute_efficiency=documented(0.5, f"{_V4}: 50 % of copy, SBUF Read-Add-Write"),
    dma_read_add_write_efficiency=documented(0.5, f"{_V4}: no read-add-write before v4"),
    logical_core_max=count(1, f"{_LOGICAL}: LNC applies only to Trn2 and Trn3"),
    register_s=assumed(50e-9, "a sequencer's step; AWS gives no cost for registers"),
    core_barrier_s=assumed(2e-6, "a semaphore to the other core and back; no cost published"),
    launch_s=assumed(15e-6, "10 to 20 us of fixed kernel overhead in published kernel timings"),
    paired_launch_s=assumed(15e-6, "no logical cores on v2; as alone"),
    unmodelled_factor=derived(1.0, "spread of the residuals in docs/accuracy.md"),
)

NEURONCORE_V3: Final = replace(
    NEURONCORE_V2,
    name="NeuronCore-v3",
    generation=3,
    sbuf_partition_bytes=count(224 * _KIB, f"{_V3}: 28 MiB, 128 partitions of 224 KiB"),
    hbm_bytes=count(24 * _KIB**3, "trainium2.rst: 96 GiB in 4 banks, a bank for two cores"),
    tensor_clock_hz=documented(2.4e9, f"{_V3}: 2.4 GHz"),
    fp8_double_row_contraction=count(256, f"{_V3}: FP8 double row contracts 256"),
    fp32_transpose_speedup=documented(2, f"{_V3}: Built-in Transpose Support, 2x in FP32"),
    pe_tile_minimum=count(32, "nki.isa.nc_matmul, Tiling mode: 4x 32 rows from v3 on"),
    vector_clock_hz=documented(0.96e9, f"{_V3}: 0.96 GHz"),
    vector_port_engines=count(1, f"{_V3}: accesses in parallel"),
    scalar_clock_hz=documented(1.2e9, f"{_V3}: 1.2 GHz"),
    gpsimd_clock_hz=documented(1.2e9, f"{_V3}: 1.2 GHz"),
    minimum_interval_cycles=assumed(64, "given for v2, taken over"),
    access_latency_cycles=assumed(60, "given for v2, taken over"),
    accumulator_read_cycles=assumed(64, "given for v2, taken over"),
    gpsimd_overhead_cycles=assumed(150, "given for v2, taken over"),
    gpsimd_gather_step_cycles=assumed(4, "given for v2, taken over"),
    gpsimd_gather_overhead_cycles=assumed(28, "given for v2, taken over"),
    vector_reciprocal_cycles_per_element=assumed(8, "given for v2, taken over"),
    vector_aggregate_cycles_per_statistics=assumed(13, "given for v2, taken over"),
    vector_random_values_per_cycle=assumed(1, "given for v2, taken over"),
    vector_16bit_copy_speedup=documented(4, f"{_V3}: Vector Engine performance mode, 4x"),
    vector_16bit_strided_speedup=documented(2, f"{_V3}: 2x when strided or with PSUM"),
    vector_16bit_tensor_tensor_speedup=documented(2, f"{_V3}: tensor_tensor 2x, 16 bit in SBUF"),
    tensor_ramp_s=documented(3e-6, f"{_THROTTLING}: ramps to full over about 3 us"),
    tensor_ramp_start=documented(0.5, f"{_THROTTLING}: starts at about 50 %"),
    dma_bytes_per_s=documented(368e9, f"{_DMA}: 23 B/ns sustained on each of 16 engines"),
    dma_paired_bytes_per_s=derived(350e9, f"{_FITTED}: two cores share an HBM stack"),
    dma_issue_s=documented(0.6e-6, f"{_DGE}: each hardware-DGE instruction takes about 600 ns"),
    dma_start_s=measured(0.75e-6, "nki-dma-intro figures: trigger to first byte, about 0.75 us"),
    dma_transpose_efficiency=documented(0.9, f"{_V3}: DMA transpose up to 90 % of copy"),
    dma_transpose_on_chip_efficiency=documented(0.5, f"{_V3}: SBUF2SBUF DMA transpose, 50 %"),
    logical_core_max=count(_PAIR, f"{_LOGICAL}: 1 or 2"),
    launch_s=derived(1e-6, _FITTED),
    paired_launch_s=derived(24e-6, _FITTED),
)

NEURONCORE_V4: Final = replace(
    NEURONCORE_V3,
    name="NeuronCore-v4",
    generation=4,
    sbuf_partition_bytes=count(256 * _KIB, f"{_V4}: 32 MiB, 128 partitions of 256 KiB"),
    hbm_bytes=count(36 * _KIB**3, "trainium3.rst: 144 GiB in 4 banks", Kind.DERIVED),
    moving_free_max=count(4096, f"{_MATMUL}: 4096 for a float32 dst on v4"),
    background_transpose_speedup=documented(2, f"{_V4}: Background Transpose, close to double"),
    vector_clock_hz=documented(1.2e9, f"{_V4}: 1.2 GHz"),
    scalar_16bit_copy_speedup=documented(2, f"{_V4}: Scalar Engine, Performance mode, 2x"),
    vector_random_values_per_cycle=documented(4, f"{_V4}: XORWOW-based PRNG, 4 a lane a cycle"),
    vector_quantize_elements_per_cycle=documented(4, f"{_V4}: QuantizeMX, 4 a cycle"),
    vector_exponential_elements_per_cycle=documented(4, f"{_V4}: 4x the Scalar Engine's exp"),
    dma_bytes_per_s=documented(528e9, f"{_DMA}: 33 B/ns sustained on each of 16 engines"),
    dma_issue_s=assumed(0.6e-6, "documented for Trn2, taken over"),
    dma_paired_bytes_per_s=assumed(502e9, "528 less the share that Trn2 loses to its neighbour"),
    dma_start_s=assumed(0.75e-6, "measured on Trn2, taken over"),
    dma_end_s=assumed(0.3e-6, "measured on Trn2, taken over"),
    dma_transpose_efficiency=assumed(0.9, "given for v3, taken over"),
    dma_transpose_on_chip_efficiency=assumed(0.5, "given for v3, taken over"),
    dma_compute_efficiency=assumed(0.5, "given for generations before v4, taken over"),
    dma_read_add_write_efficiency=documented(1, f"{_V4}: SBUF Read-Add-Write, as a copy"),
    launch_s=assumed(1e-6, "as on Trn2"),
    paired_launch_s=assumed(24e-6, "as on Trn2"),
    tensor_ramp_s=documented(3e-6, f"{_THROTTLING}: Trn2 and Trn3"),
)
