"""Targets: the chips that a kernel can be run for, and the NeuronCores that they are made of.

A chip is data: the numbers of its core, the core's features, and one entry of `TARGETS`. Code that
lists chips (commands, reports, plans, error messages) walks that table. Constants that AWS gives
only for v2 are marked *assumed* for v3 and v4.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from trnsim.arch.features import Features
from trnsim.arch.neuroncore import NeuronCore
from trnsim.errors import BadInput
from trnsim.facts import (
    Evidence,
    assumed,
    count,
    derived,
    documented,
    feature,
    measured,
    missing_feature,
    names,
)

_V2_GUIDE: Final = "aws-neuron-sdk nki/guides/architecture/trainium_inferentia2_arch.rst"
_V3_GUIDE: Final = "aws-neuron-sdk nki/guides/architecture/trainium2_arch.rst"
_V4_GUIDE: Final = "aws-neuron-sdk nki/guides/architecture/trainium3_arch.rst"
_MATMUL_PAGE: Final = "nki.isa.nc_matmul, Tile size"
_SHARED_PAGE: Final = "aws-neuron-sdk nki/api/nki.api.shared.rst"
_DMA_GUIDE: Final = "aws-neuron-sdk nki/guides nki-dma-bandwidth-guide.rst"
_DMA_FIGURES: Final = "aws-neuron-sdk nki/img/overviews/nki-dma-intro"
_PACKETS_PAGE: Final = "aws-neuron-sdk compute-comm-overlap.rst, Adjusting Static DMA Priority"
_SHORT_RUNS_ORIGIN: Final = (
    "matrix_multiplication.rst (SDK 2.26): three matmuls that load rows of at most 1 KiB"
)
_ONE_QUEUE: Final = "kernel-optimization.rst, v2-zoom: one trigger in 0.60 us, 66,048 in 39.9 ms"
_THROTTLING_PAGE: Final = (
    "aws-neuron-sdk tools/neuron-explorer overview-summary-page.rst, throttling"
)
_DGE_PAGE: Final = "aws-neuron-sdk nki/deep-dives/nki-dge.rst, hwdge"
_FITTED_TIMES: Final = (
    "fitted to public kernels' published times by `make accuracy`: docs/generated/accuracy.md"
)
_COSTS_PAGE: Final = "aws-neuron-sdk@0521004c general/nki/api/nki/isa/__init__.py (SDK 2.26)"
_LNC_PAGE: Final = "aws-neuron-sdk logical-neuroncore-config.rst"
_TYPES_PAGE: Final = (
    "aws-neuron-sdk data-types.rst; nki.api.shared.rst, Supported Data Types by NKI"
)
_OPERATORS_PAGE: Final = f"{_SHARED_PAGE}, Supported Math Operators for NKI ISA"
_NKI_04: Final = "release notes of NKI 0.4.0, New Features"
_SUMMARY_PAGE: Final = "aws-neuron-sdk tools/neuron-explorer profile-schema-reference.rst, Summary"
_KIB: Final = 1024
_PAIR: Final = 2

_FEATURES_V2: Final = Features(
    dtypes=names(
        _TYPES_PAGE,
        *("float32", "tfloat32", "bfloat16", "float16"),
        *("float8_e4m3", "float8_e5m2", "float8_e3m4"),
        *("int8", "int16", "int32", "uint8", "uint16", "uint32", "bool_"),
        "int64",  # in memory alone: nki.isa.scalar_load
    ),
    bit_transpose=missing_feature("nki.isa.nc_transpose: bit-accurate starting NeuronCore-v3"),
    matmul_dst_dtypes=names("nki.isa.nc_matmul, Data types: float32 on v2 and v3", "float32"),
    matmul_bfloat16_columns_max=count(512, f"{_MATMUL_PAGE}: 512 on v2 and v3"),
    matmul_across_banks=missing_feature(
        f"{_V2_GUIDE}, Tensor Engine, Tile Size: one PSUM bank at a time"
    ),
    matmul_onto_written=missing_feature("nki.isa.nc_matmul, Accumulation mode: not on v2 and v3"),
    matmul_indirection=missing_feature("nki.isa.nc_matmul, Tensor indirection: v4 and later"),
    mx=missing_feature("nki.isa.quantize_mx, nc_matmul_mx: NeuronCore-v4 and newer"),
    sparse_matmul=missing_feature(f"{_V3_GUIDE}, M:N Structured Sparsity: new in v3"),
    indirection=missing_feature("nki.isa, Tensor indirection of each instruction: v4 and later"),
    alu_operators=names(
        _OPERATORS_PAGE,
        *("add", "subtract", "multiply", "maximum", "minimum", "power"),
        *("equal", "not_equal", "greater_equal", "greater", "less_equal", "less"),
        *("logical_and", "logical_or", "logical_xor", "abs", "rsqrt", "reciprocal"),
        *("bitwise_and", "bitwise_or", "bitwise_xor", "invert", "left_shift", "right_shift"),
    ),
    range_select=missing_feature("nki.isa.range_select: NeuronCore-v3 and newer"),
    vector_exponential=missing_feature("nki.isa.exponential: NeuronCore-v4 and newer"),
    rand2=missing_feature("nki.isa.rand2: NeuronCore-v4+"),
    rng_engines=names("nki.isa.rng: NeuronCore-v2: Vector", "vector"),
    random_state_engines=names("nki.isa.rand_get_state: NeuronCore-v3+"),
    activate2=missing_feature("nki.isa.activate2: NeuronCore-v4 and newer"),
    scalar_tensor_copy=missing_feature("nki.isa.tensor_copy: not on the Scalar Engine of v2"),
    activation_number_bias=missing_feature(
        "nki.isa.activation: bias must be a [N, 1] vector on v2"
    ),
    activation_reciprocal_bias=missing_feature(f"{_SHARED_PAGE}, NKI Engine Selection"),
    activation_reduce_add_alone=feature("nki.isa.activation_reduce: must be nl.add on v2"),
    nonzero_with_count=missing_feature("nki.isa.nonzero_with_count: NeuronCore-v3 and newer"),
    hardware_dge=missing_feature(f"{_V3_GUIDE}: the DGE is new in v3"),
    indirect_dma=missing_feature(f"{_DGE_PAGE}; Mode Selection Summary: swdge, indirect: v3+"),
    dma_priority=missing_feature("nki.isa.dma_copy, priority: NeuronCore-v4+ only"),
    int32_matmul=feature("error-codes/EVRF035.rst: supported on NeuronCore-v2 and earlier"),
    pe_transpose_psum_banks=count(0, "nki.language.tile_size, psum_num_banks: 7 on trn2+ alone"),
    fp8_bfloat16_flops=documented(1, f"{_SUMMARY_PAGE}, adjusted_hardware_flops"),
    base_clock_hz=documented(1.4e9, f"{_SUMMARY_PAGE}, neuroncore_cycle_count"),
)

_FEATURES_V3: Final = replace(
    _FEATURES_V2,
    bit_transpose=feature("nki.isa.nc_transpose: bit-accurate starting NeuronCore-v3"),
    sparse_matmul=feature(f"{_V3_GUIDE}, M:N Structured Sparsity: new in v3"),
    range_select=feature("nki.isa.range_select: NeuronCore-v3 and newer"),
    rng_engines=names("nki.isa.rng: NeuronCore-v3+: GpSimd, Vector", "vector", "gpsimd"),
    random_state_engines=names("nki.isa.rand_get_state: NeuronCore-v3: GpSimd", "gpsimd"),
    scalar_tensor_copy=feature(f"{_V3_GUIDE}, Scalar Engine; nki.isa.tensor_copy"),
    activation_number_bias=feature("nki.isa.activation: a scalar bias on NeuronCore-v3 or newer"),
    activation_reciprocal_bias=feature(f"{_SHARED_PAGE}, NKI Engine Selection"),
    activation_reduce_add_alone=missing_feature("nki.isa.activation_reduce: says it of v2 alone"),
    nonzero_with_count=feature("nki.isa.nonzero_with_count: NeuronCore-v3 and newer"),
    hardware_dge=feature(f"{_V3_GUIDE}: the DGE is new in v3"),
    indirect_dma=feature(f"{_DGE_PAGE}; Mode Selection Summary: swdge, indirect: v3+"),
    int32_matmul=missing_feature("error-codes/EVRF035.rst: refused on Trainium2 and later"),
    pe_transpose_psum_banks=count(1, "nki.language.tile_size, psum_num_banks: bank 7 on trn2+"),
    fp8_bfloat16_flops=documented(0.5, f"{_SUMMARY_PAGE}, adjusted_hardware_flops"),
    base_clock_hz=documented(1.2e9, f"{_SUMMARY_PAGE}, neuroncore_cycle_count"),
)

_FEATURES_V4: Final = replace(
    _FEATURES_V3,
    dtypes=names(
        f"{_TYPES_PAGE}; nki.isa.nc_matmul and nc_matmul_mx, Data types",
        *_FEATURES_V3.dtypes,
        *("float8_e4m3fn", "float8_e8m0fnu", "float4_e2m1fn"),
        *("float8_e5m2_x4", "float8_e4m3fn_x4", "float4_e2m1fn_x4"),
    ),
    matmul_dst_dtypes=names(
        "nki.isa.nc_matmul, Data types: bfloat16 starting NeuronCore-v4", "float32", "bfloat16"
    ),
    matmul_bfloat16_columns_max=count(8192, f"{_MATMUL_PAGE}: 8192 for a bfloat16 dst on v4"),
    matmul_across_banks=feature(f"{_MATMUL_PAGE}: 4096 columns, which are eight banks"),
    matmul_onto_written=feature("nki.isa.nc_matmul, Accumulation mode: starting NeuronCore-v4"),
    matmul_indirection=feature("nki.isa.nc_matmul, Tensor indirection: v4 and later"),
    mx=feature("nki.isa.quantize_mx, nc_matmul_mx: NeuronCore-v4 and newer"),
    indirection=feature("nki.isa, Tensor indirection of each instruction: v4 and later"),
    alu_operators=names(
        f"{_OPERATORS_PAGE}; {_NKI_04}",
        *_FEATURES_V3.alu_operators,
        *("abs_max", "abs_min", "square", "relu", "bypass"),
    ),
    vector_exponential=feature("nki.isa.exponential: NeuronCore-v4 and newer"),
    rand2=feature("nki.isa.rand2: NeuronCore-v4+"),
    random_state_engines=names(
        "nki.isa.rand_get_state: NeuronCore-v4+: GpSimd, Vector", "gpsimd", "vector"
    ),
    activate2=feature("nki.isa.activate2: NeuronCore-v4 and newer"),
    dma_priority=feature("nki.isa.dma_copy, priority: NeuronCore-v4+ only"),
    base_clock_hz=None,
)

NEURONCORE_V2: Final = NeuronCore(
    name="NeuronCore-v2",
    generation=2,
    features=_FEATURES_V2,
    partitions=count(128, f"{_V2_GUIDE}: SBUF and PSUM have 128 partitions"),
    quadrant_partitions=count(32, f"{_V2_GUIDE}: start partition rules"),
    sbuf_partition_bytes=count(192 * _KIB, f"{_V2_GUIDE}: 24 MiB, 128 partitions of 192 KiB"),
    psum_banks=count(8, f"{_V2_GUIDE}: each partition of PSUM has 8 banks"),
    psum_bank_bytes=count(2 * _KIB, f"{_V2_GUIDE}: banks of 2 KiB"),
    hbm_bytes=count(16 * _KIB**3, "trainium.rst: 32 GiB for 2 NeuronCores", Evidence.DERIVED),
    pe_rows=count(128, f"{_V2_GUIDE}: Tensor Engine is a 128x128 array"),
    pe_columns=count(128, f"{_V2_GUIDE}: Tensor Engine is a 128x128 array"),
    moving_free_max=count(512, f"{_MATMUL_PAGE}: 512 on v2 and v3"),
    tensor_clock_hz=documented(2.8e9, f"{_V2_GUIDE}: 2.8 GHz"),
    fp32_passes=count(4, f"{_V2_GUIDE}: FP32 costs four times BF16"),
    fp32_onezero_speedup=documented(2, "nki.isa.nc_matmul, is_stationary_onezero: up to 2x"),
    fp32_transpose_speedup=documented(1, f"{_V2_GUIDE}: no transpose mode"),
    background_transpose_speedup=documented(1, f"{_V2_GUIDE}: one instruction at a time"),
    pe_tile_minimum=count(64, "nki.isa.nc_matmul, Tiling mode: 2x 64 rows from v2 on"),
    fp8_double_row_contraction=count(128, "nki.isa.nc_matmul: no performance mode on v2"),
    vector_clock_hz=documented(1.12e9, f"{_V2_GUIDE}: 1.12 GHz"),
    vector_port_engines=count(2, f"{_V2_GUIDE}: SBUF with GpSimd, PSUM with the Scalar Engine"),
    scalar_clock_hz=documented(1.4e9, f"{_V2_GUIDE}: 1.4 GHz"),
    gpsimd_clock_hz=documented(1.4e9, f"{_V2_GUIDE}: 1.4 GHz"),
    vector_transpose_partitions=count(32, "nki.isa.nc_transpose: Vector Engine up to [32, 32]"),
    minimum_interval_cycles=documented(64, f"{_SHARED_PAGE}: MIN_II is roughly 64 engine cycles"),
    access_latency_cycles=documented(
        60, f"{_V2_GUIDE}: about 60 cycles to start an SBUF/PSUM access"
    ),
    strided_slowdown=documented(2, f"{_V2_GUIDE}: half the bandwidth beyond strides of 16 bytes"),
    accumulator_read_cycles=documented(64, f"{_COSTS_PAGE}: activation_reduce max(64, N) + 64"),
    activation_table_load_s=assumed(1.29e-6, "measured on Trn2, taken over"),
    scalar_dependent_s=derived(100e-9, "nki_perf_guide fig16: 189 ns an ACTIVATE of one element"),
    tensor_dependent_s=derived(90e-9, "nki_perf_guide fig18 and fig20: 219 and 188 ns a MATMUL"),
    stationary_load_columns_per_cycle=assumed(2, "fitted to Trn2's kernels, taken over"),
    gpsimd_overhead_cycles=documented(150, f"{_COSTS_PAGE}: iota, affine_select 150 + N"),
    gpsimd_gather_step_cycles=documented(4, f"{_COSTS_PAGE}: local_gather, t is 4"),
    gpsimd_gather_overhead_cycles=documented(28, f"{_COSTS_PAGE}: local_gather, 28 + t * elements"),
    gpsimd_topk_cycles_per_element=documented(4, "nki.isa.topk: 4*n + K cycles"),
    gpsimd_rsqrt_cycles_per_element=documented(4, f"{_SHARED_PAGE}: rsqrt 4x slower than ScalarE"),
    bn_stats_free_max=count(512, "nki.isa.bn_stats: at most 512 elements per partition"),
    search_free_max=count(16384, "nki.isa.max8, nc_find_index8: 8 to 16,384 elements"),
    vector_reciprocal_cycles_per_element=documented(8, f"{_SHARED_PAGE}: max(MIN_II, 8*N)"),
    vector_aggregate_cycles_per_statistics=documented(13, f"{_COSTS_PAGE}: bn_aggr 13*(N/3)"),
    vector_exponential_elements_per_cycle=documented(1, f"{_V4_GUIDE}: new in v4, not before"),
    vector_random_values_per_cycle=documented(1, f"{_COSTS_PAGE}: dropout max(MIN_II, N)"),
    vector_16bit_copy_speedup=documented(1, f"{_V2_GUIDE}: no performance mode"),
    vector_8bit_copy_speedup=documented(1, f"{_V2_GUIDE}: no performance mode"),
    vector_16bit_strided_speedup=documented(1, f"{_V2_GUIDE}: no performance mode"),
    vector_16bit_tensor_tensor_speedup=documented(1, f"{_V2_GUIDE}: no performance mode"),
    scalar_16bit_copy_speedup=documented(1, f"{_V4_GUIDE}: Scalar Engine, 2x is new in v4"),
    vector_quantize_elements_per_cycle=documented(1, f"{_V2_GUIDE}: no quantize_mx before v4"),
    tensor_ramp_s=documented(1e-9, f"{_THROTTLING_PAGE}: Trn2 and Trn3 alone, so at once on v2"),
    tensor_ramp_start=documented(1, f"{_THROTTLING_PAGE}: Trn2 and Trn3 alone, so full on v2"),
    engine_semaphore_s=derived(60e-9, "264-cycle dependent interval less its duration, 1.4 GHz"),
    dma_engines=count(16, f"{_V2_GUIDE}: 16 DMA engines per core"),
    dma_bytes_per_s=documented(272e9, f"{_DMA_GUIDE}: 17 B/ns sustained on each of 16 engines"),
    dma_paired_bytes_per_s=documented(272e9, f"{_V2_GUIDE}: no logical cores on v2; as alone"),
    dma_queues=count(2, "mamba_v1_profile_4k_chan: qSyncIO0, qGpSimdIO0", Evidence.MEASURED),
    dma_issue_s=assumed(0.1e-6, "no DGE on v2: as a static transfer"),
    dma_static_issue_s=assumed(0.1e-6, "measured on Trn2, taken over"),
    dma_start_s=measured(1.3e-6, f"{_DMA_GUIDE}: semaphore to start, about 1300 ns"),
    dma_stagger_s=assumed(0.3e-6, "measured on Trn2, taken over"),
    dma_end_s=assumed(0.3e-6, "measured on Trn2, taken over"),
    dma_packet_bytes=count(4 * _KIB, f"{_PACKETS_PAGE}: 4 KiB by default"),
    dma_descriptor_s=measured(7e-9, "nki_perf_guide fig29: a packet of 4 B in 7 ns"),
    dma_short_run_bytes=count(_KIB, _SHORT_RUNS_ORIGIN, Evidence.MEASURED),
    dma_short_run_bytes_per_s=derived(105e9, _SHORT_RUNS_ORIGIN),
    dma_transpose_efficiency=assumed(0.25, "v2 load_transpose2d is 'much lower', no number"),
    dma_transpose_on_chip_efficiency=assumed(0.25, "as from HBM on v2; no number published"),
    dma_compute_efficiency=documented(0.5, f"{_V4_GUIDE}: 50 % of copy, SBUF Read-Add-Write"),
    dma_read_add_write_efficiency=documented(0.5, f"{_V4_GUIDE}: no read-add-write before v4"),
    logical_core_max=count(1, f"{_LNC_PAGE}: LNC applies only to Trn2 and Trn3"),
    register_s=assumed(50e-9, "a sequencer's step; AWS gives no cost for registers"),
    core_barrier_s=assumed(0.6e-6, "a semaphore to the other core and back, each as from a DMA"),
    launch_s=assumed(15e-6, "10 to 20 us of fixed kernel overhead in published kernel timings"),
    paired_launch_s=assumed(15e-6, "no logical cores on v2; as alone"),
)

NEURONCORE_V3: Final = replace(
    NEURONCORE_V2,
    name="NeuronCore-v3",
    generation=3,
    features=_FEATURES_V3,
    sbuf_partition_bytes=count(224 * _KIB, f"{_V3_GUIDE}: 28 MiB, 128 partitions of 224 KiB"),
    hbm_bytes=count(24 * _KIB**3, "trainium2.rst: 96 GiB in 4 banks, a bank for two cores"),
    tensor_clock_hz=documented(2.4e9, f"{_V3_GUIDE}: 2.4 GHz"),
    fp8_double_row_contraction=count(256, f"{_V3_GUIDE}: FP8 double row contracts 256"),
    fp32_transpose_speedup=documented(2, f"{_V3_GUIDE}: Built-in Transpose Support, 2x in FP32"),
    pe_tile_minimum=count(32, "nki.isa.nc_matmul, Tiling mode: 4x 32 rows from v3 on"),
    vector_clock_hz=documented(0.96e9, f"{_V3_GUIDE}: 0.96 GHz"),
    vector_port_engines=count(1, f"{_V3_GUIDE}: accesses in parallel"),
    activation_table_load_s=measured(1.29e-6, "nki-dma-intro-3.png: ACT_TABLE_LOAD, 1,290 ns"),
    scalar_dependent_s=derived(
        100e-9, f"{_FITTED_TIMES}; as on v2. nki-dma-intro-5.png has 248 ns more for one ACTIVATE"
    ),
    tensor_dependent_s=assumed(90e-9, "measured on Trn1, taken over"),
    stationary_load_columns_per_cycle=derived(
        2, f"{_FITTED_TIMES}; {_V2_GUIDE}, Fast LoadStationary: up to 4"
    ),
    scalar_clock_hz=documented(1.2e9, f"{_V3_GUIDE}: 1.2 GHz"),
    gpsimd_clock_hz=documented(1.2e9, f"{_V3_GUIDE}: 1.2 GHz"),
    minimum_interval_cycles=assumed(64, "given for v2, taken over"),
    access_latency_cycles=assumed(60, "given for v2, taken over"),
    strided_slowdown=assumed(1, "v3 has its own rule for strides: performance modes"),
    accumulator_read_cycles=assumed(64, "given for v2, taken over"),
    gpsimd_overhead_cycles=assumed(150, "given for v2, taken over"),
    gpsimd_gather_step_cycles=assumed(4, "given for v2, taken over"),
    gpsimd_gather_overhead_cycles=assumed(28, "given for v2, taken over"),
    vector_reciprocal_cycles_per_element=assumed(8, "given for v2, taken over"),
    vector_aggregate_cycles_per_statistics=assumed(13, "given for v2, taken over"),
    vector_random_values_per_cycle=assumed(1, "given for v2, taken over"),
    vector_16bit_copy_speedup=documented(4, f"{_V3_GUIDE}: Vector Engine performance mode, 4x"),
    vector_8bit_copy_speedup=derived(
        2, f"{_V3_GUIDE}: 256 elements a cycle of other types than BF16/FP16; rmsnorm_quant agrees"
    ),
    vector_16bit_strided_speedup=documented(2, f"{_V3_GUIDE}: 2x when strided or with PSUM"),
    vector_16bit_tensor_tensor_speedup=documented(
        2, f"{_V3_GUIDE}: tensor_tensor 2x, 16 bit in SBUF"
    ),
    tensor_ramp_s=documented(3e-6, f"{_THROTTLING_PAGE}: ramps to full over about 3 us"),
    tensor_ramp_start=documented(0.5, f"{_THROTTLING_PAGE}: starts at about 50 %"),
    dma_bytes_per_s=documented(368e9, f"{_DMA_GUIDE}: 23 B/ns sustained on each of 16 engines"),
    dma_paired_bytes_per_s=derived(350e9, f"{_FITTED_TIMES}: two cores share an HBM stack"),
    dma_queues=count(1, _ONE_QUEUE, Evidence.MEASURED),
    dma_issue_s=documented(
        0.6e-6, f"{_DGE_PAGE}: each hardware-DGE instruction takes about 600 ns"
    ),
    dma_start_s=measured(0.75e-6, f"{_DMA_FIGURES}-3, -7: trigger to first byte, 0.73 to 0.82 us"),
    dma_static_issue_s=measured(
        0.1e-6, f"{_DMA_FIGURES}-3: two triggers of the Sync Engine in 0.18 us"
    ),
    dma_stagger_s=measured(0.3e-6, f"{_DMA_FIGURES}-5: first engine's start to the last one's"),
    dma_end_s=measured(0.3e-6, f"{_DMA_FIGURES}-3: DMA end to consumer start, about 0.3 us"),
    dma_descriptor_s=measured(12e-9, f"{_DMA_FIGURES}-5: 8 descriptors of 256 B in 97 ns"),
    dma_short_run_bytes=count(1, f"{_DMA_FIGURES}-5: 256 B at 21 B/ns, so none", Evidence.MEASURED),
    dma_short_run_bytes_per_s=documented(368e9, f"{_DMA_GUIDE}: as all others"),
    dma_transpose_efficiency=documented(0.9, f"{_V3_GUIDE}: DMA transpose up to 90 % of copy"),
    dma_transpose_on_chip_efficiency=documented(0.5, f"{_V3_GUIDE}: SBUF2SBUF DMA transpose, 50 %"),
    logical_core_max=count(_PAIR, f"{_LNC_PAGE}: 1 or 2"),
    # The launches that fit each kernel best; their mean.
    launch_s=derived(13e-6, f"{_FITTED_TIMES}: 0, 17, 23 us", spread=0.7),
    paired_launch_s=derived(32e-6, f"{_FITTED_TIMES}: 22 to 44 us", spread=0.33),
)

NEURONCORE_V4: Final = replace(
    NEURONCORE_V3,
    name="NeuronCore-v4",
    generation=4,
    features=_FEATURES_V4,
    sbuf_partition_bytes=count(256 * _KIB, f"{_V4_GUIDE}: 32 MiB, 128 partitions of 256 KiB"),
    hbm_bytes=count(36 * _KIB**3, "trainium3.rst: 144 GiB in 4 banks", Evidence.DERIVED),
    moving_free_max=count(4096, f"{_MATMUL_PAGE}: 4096 for a float32 dst on v4"),
    background_transpose_speedup=documented(
        2, f"{_V4_GUIDE}: Background Transpose, close to double"
    ),
    vector_clock_hz=documented(1.2e9, f"{_V4_GUIDE}: 1.2 GHz"),
    activation_table_load_s=assumed(1.29e-6, "measured on Trn2, taken over"),
    scalar_dependent_s=assumed(100e-9, "as on Trn2"),
    stationary_load_columns_per_cycle=assumed(2, "as on Trn2"),
    vector_8bit_copy_speedup=documented(4, f"{_V4_GUIDE}: 512 elements a cycle, BF16/FP16/FP8"),
    scalar_16bit_copy_speedup=documented(2, f"{_V4_GUIDE}: Scalar Engine, Performance mode, 2x"),
    vector_random_values_per_cycle=documented(
        4, f"{_V4_GUIDE}: XORWOW-based PRNG, 4 a lane a cycle"
    ),
    vector_quantize_elements_per_cycle=documented(4, f"{_V4_GUIDE}: QuantizeMX, 4 a cycle"),
    vector_exponential_elements_per_cycle=documented(4, f"{_V4_GUIDE}: 4x the Scalar Engine's exp"),
    dma_bytes_per_s=documented(528e9, f"{_DMA_GUIDE}: 33 B/ns sustained on each of 16 engines"),
    dma_issue_s=assumed(0.6e-6, "documented for Trn2, taken over"),
    dma_paired_bytes_per_s=assumed(502e9, "528 less the share that Trn2 loses to its neighbour"),
    dma_start_s=assumed(0.75e-6, "measured on Trn2, taken over"),
    dma_queues=count(1, "measured on Trn2, taken over", Evidence.ASSUMED),
    dma_static_issue_s=assumed(0.1e-6, "measured on Trn2, taken over"),
    dma_stagger_s=assumed(0.3e-6, "measured on Trn2, taken over"),
    dma_end_s=assumed(0.3e-6, "measured on Trn2, taken over"),
    dma_descriptor_s=assumed(12e-9, "measured on Trn2, taken over"),
    dma_short_run_bytes=count(1, "measured on Trn2, taken over", Evidence.ASSUMED),
    dma_short_run_bytes_per_s=documented(528e9, f"{_DMA_GUIDE}: as all others"),
    dma_transpose_efficiency=assumed(0.9, "given for v3, taken over"),
    dma_transpose_on_chip_efficiency=assumed(0.5, "given for v3, taken over"),
    dma_compute_efficiency=assumed(0.5, "given for generations before v4, taken over"),
    dma_read_add_write_efficiency=documented(1, f"{_V4_GUIDE}: SBUF Read-Add-Write, as a copy"),
    launch_s=assumed(13e-6, "as on Trn2"),
    paired_launch_s=assumed(32e-6, "as on Trn2"),
    tensor_ramp_s=documented(3e-6, f"{_THROTTLING_PAGE}: Trn2 and Trn3"),
)


@dataclass(frozen=True, kw_only=True)
class Target:
    """A chip that a kernel can be run for.

    Attributes:
        name: the platform name that Neuron uses ("trn2").
        chip: the chip's catalogue key ("trainium2").
        validated: whether published measurements of the chip exist to compare with.
        generation_name: the name of the core's generation ("gen3"), if that name selects this chip.
        instance: the instance or UltraServer (catalogue name) that plans use for this chip.
        is_for_training: whether training plans include it.
        is_fitted: whether the efficiencies of plans were fitted to published results of this chip.
        plan_note: a caveat shown with every plan for it.
        link_doubt: why its published chip-to-chip bandwidth is doubtful, or "".
    """

    name: str
    chip: str
    core: NeuronCore
    validated: bool
    generation_name: str = ""
    instance: str
    is_for_training: bool = True
    is_fitted: bool = False
    plan_note: str = ""
    link_doubt: str = ""


TARGETS: Final = {
    target.name: target
    for target in (
        Target(
            name="trn1",
            chip="trainium1",
            core=NEURONCORE_V2,
            validated=True,
            generation_name="gen2",
            instance="trn1.32xlarge",
            is_fitted=True,
        ),
        Target(
            name="inf2",
            chip="inferentia2",
            core=NEURONCORE_V2,
            validated=True,
            instance="inf2.48xlarge",
            is_for_training=False,
            is_fitted=True,
        ),
        Target(
            name="trn2",
            chip="trainium2",
            core=NEURONCORE_V3,
            validated=True,
            generation_name="gen3",
            instance="trn2.48xlarge",
            plan_note="efficiencies carried over from Trn1",
        ),
        Target(
            name="trn3",
            chip="trainium3",
            core=NEURONCORE_V4,
            validated=False,
            generation_name="gen4",
            instance="Trn3 Gen2 UltraServer",
            plan_note="no public measurement of Trn3 exists",
            # The page gives 2.56 TB/s, 2,048 GiB/s and a list of links that sums to 704 GB/s.
            link_doubt="the sled switch alone; AWS's own totals contradict each other",
        ),
    )
}


def target(name: str) -> Target:
    """The target called `name`, which may also be the name of a generation ("gen3").

    Raises:
        BadInput: for any other name.

    Source: nki.jit, NEURON_PLATFORM_TARGET_OVERRIDE.
    """
    if isinstance(name, str) and name in TARGETS:  # pyright: ignore[reportUnnecessaryIsInstance]  of a user
        return TARGETS[name]
    generations = {chip.generation_name: chip for chip in TARGETS.values() if chip.generation_name}
    by_name = TARGETS | generations
    if not isinstance(name, str) or name not in by_name:  # pyright: ignore[reportUnnecessaryIsInstance]  of a user
        raise BadInput(
            f"target {name!r} is not known; legal: {', '.join(by_name)}",
            fix="name one of them, for example target='trn2'",
            source="nki.jit, NEURON_PLATFORM_TARGET_OVERRIDE",
        )
    return by_name[name]


def target_of_chip(chip: str) -> Target | None:
    """The target that emulates a chip of the catalogue; None for a GPU or an Inferentia1."""
    return next((target for target in TARGETS.values() if target.chip == chip), None)


def cores() -> tuple[NeuronCore, ...]:
    """The NeuronCores of all targets, each once, the oldest generation first."""
    by_core_name = {chip.core.name: chip.core for chip in TARGETS.values()}
    return tuple(sorted(by_core_name.values(), key=lambda core: core.generation))
