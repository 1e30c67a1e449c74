"""The families of instructions from which a random kernel is made; the common ones stand twice."""

from __future__ import annotations

import computing
import control
import drawing
import indirection
import moving
import multiplying
import sorting

FAMILIES = (
    indirection.gather,
    indirection.added,
    indirection.elementwise,
    indirection.array,
    indirection.scaled,
    moving.reinterpret,
    moving.dma_copy,
    moving.tensor_copy,
    moving.dma_compute,
    moving.memset,
    moving.nc_transpose,
    moving.dma_transpose,
    moving.nc_stream_shuffle,
    computing.tensor_tensor,
    computing.tensor_tensor,
    computing.power,
    computing.tensor_scalar,
    computing.tensor_scalar,
    computing.scalar_tensor_tensor,
    computing.reciprocal,
    computing.tensor_reduce,
    computing.tensor_partition_reduce,
    computing.tensor_scalar_reduce,
    computing.tensor_scalar_cumulative,
    computing.tensor_tensor_scan,
    computing.activation,
    computing.activation,
    computing.activate2,
    computing.exponential,
    multiplying.nc_matmul,
    multiplying.nc_matmul,
    multiplying.double_row,
    multiplying.quantize_mx,
    multiplying.nc_matmul_mx,
    multiplying.nc_matmul_sparse,
    moving.iota,
    moving.affine_select,
    moving.range_select,
    moving.select_reduce,
    moving.tensor_copy_predicated,
    sorting.max8,
    sorting.nc_match_replace8,
    sorting.topk,
    sorting.nonzero_with_count,
    sorting.sequence_bounds,
    moving.bn_stats,
    moving.nc_n_gather,
    moving.local_gather,
    drawing.rng,
    drawing.seeded,
    drawing.restored,
    drawing.rand2,
    drawing.dropout,
    drawing.dropped_or_kept,
    control.loop,
    control.nested,
    control.register,
    control.while_loop,
)
