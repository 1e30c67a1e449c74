"""The families of instructions from which a random kernel is made; the common ones stand twice."""

from __future__ import annotations

import computing
import moving

FAMILIES = (
    moving.gather,
    moving.reinterpret,
    moving.dma_copy,
    moving.tensor_copy,
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
    computing.exponential,
    computing.nc_matmul,
    computing.nc_matmul,
    moving.iota,
    moving.affine_select,
    moving.range_select,
    moving.select_reduce,
    moving.tensor_copy_predicated,
    moving.max8,
    moving.bn_stats,
    moving.nc_n_gather,
    moving.local_gather,
    moving.loop,
    moving.register,
)
