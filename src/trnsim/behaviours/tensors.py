"""Tensors and the functions of `nki.language`: views, copies, stores."""

from __future__ import annotations

from typing import Final

from trnsim.behaviours.behaviour import Behaviour, Effect, existence

_NOTES = "release notes of NKI"

AP_OFFSET_ADDS: Final = Behaviour(
    name="ap-offset-adds",
    since="0.5",
    rule="tensor.ap(offset=) adds to the view's offset, and None adds nothing",
    otherwise="tensor.ap(offset=) counts from the start of the storage, and is 0 if left out",
    instead="take ap of the whole tensor and give the offset from its start",
    source="nki.language.NkiTensor.ap of v2.30 and v2.31",
    effect=Effect.values,
)
RESHAPE_UNCHECKED: Final = Behaviour(
    name="reshape-unchecked",
    until="0.5",
    rule="tensor.reshape does not compare the numbers of elements: the view starts where it did",
    otherwise="tensor.reshape keeps the number of elements",
    instead="slice the tensor to as many elements before the reshape",
    source="nki/migration/index.rst, NkiTensor.reshape",
)
COPY_IS_EXACT: Final = Behaviour(
    name="copy-is-exact",
    since="0.6",
    rule="nl.copy is a tensor_copy of the Vector Engine, and exact",
    otherwise="nl.copy goes through float32 on the Scalar Engine",
    instead="use nisa.tensor_copy(dst, src)",
    source=f"{_NOTES} 0.6, nki.language.copy; of NKI 0.4, Known Issues, nki.language.copy",
    effect=Effect.values,
)
COPY_READS_PSUM: Final = Behaviour(
    name="copy-reads-psum",
    since="0.6",
    rule="nl.copy takes a tile in PSUM",
    otherwise="nl.copy takes no tile in PSUM",
    instead="use nisa.tensor_copy(dst, src)",
    source=f"{_NOTES} 0.6, nki.language.copy; of NKI 0.4, Known Issues, nki.language.copy",
)
RSQRT_ON_SCALAR_ENGINE: Final = Behaviour(
    name="rsqrt-on-scalar-engine",
    until="0.5",
    rule="nl.rsqrt runs on the Scalar Engine",
    otherwise="nl.rsqrt runs on the GpSimd Engine, which is more precise",
    instead="use nisa.activation(dst, nl.rsqrt, data)",
    source="nki/migration/index.rst, nki.language.rsqrt",
    effect=Effect.time,
)
RSQRT_READS_PSUM: Final = Behaviour(
    name="rsqrt-reads-psum",
    until="0.5",
    rule="nl.rsqrt takes a tile in PSUM",
    otherwise="nl.rsqrt takes a tile in SBUF alone, as the GpSimd Engine computes it",
    instead="use nisa.activation(dst, nl.rsqrt, data), which reads PSUM",
    source="nki/migration/index.rst, nki.language.rsqrt",
)
VIEW_METHODS: Final = Behaviour(
    name="view-methods",
    since="0.5",
    rule="tensors have slice, select, permute, broadcast, expand_dim, squeeze_dim, reshape_dim, "
    "flatten_dims, rearrange, vector_select, is_contiguous and is_indirect",
    otherwise="tensors have reshape, view, ap, get_pattern and indexing by slices",
    instead="write the view as tensor.ap([[stride, count], ...]), or index with slices",
    source=f"{_NOTES} 0.5, New NkiTensor view primitives",
)
JAX_DTYPES: Final = Behaviour(
    name="jax-dtypes",
    since="0.4",
    rule="an argument of a kernel may be a dtype of JAX, such as jnp.bfloat16",
    otherwise="a dtype of JAX is no argument of a kernel",
    instead="pass the dtype of NKI: nl.bfloat16",
    source=f"{_NOTES} 0.4, JAX dtype support",
)


def _limit(version: str, name: str, instead: str) -> Behaviour:
    """The existence of a limit of `nl.tile_size` since `version`."""
    source = f"{_NOTES} {version}, New Features"
    return existence(version, f"nl.tile_size.{name}", instead, source)


_FREE = "nl.tile_size.total_available_sbuf_size"
ROWS: Final = (
    _limit("0.4", "sbuf_size_bytes", f"multiply {_FREE} by nl.tile_size.pmax"),
    _limit("0.4", "sbuf_fmax", f"divide {_FREE} by 4"),
    _limit("0.4", "sbuf_fmax_bytes", f"use {_FREE}"),
    _limit("0.4", "psum_bank_fmax", "use nl.tile_size.psum_fmax"),
    _limit("0.4", "psum_bank_fmax_bytes", "multiply nl.tile_size.psum_fmax by 4"),
    _limit("0.5", "psum_num_banks", "write 8, the banks of a partition of PSUM"),
)
"""Behaviours of the table: each is a limit of `nl.tile_size` that a version added."""

LIMITS: Final = {row.form.rpartition(".")[2]: row for row in ROWS}
"""The behaviour of each of these limits by the limit's name."""
RANGE_INDEXES: Final = Behaviour(
    name="affine-range-indexes",
    until="0.7",
    rule="tensor[nl.affine_range(n)] is the slice of the elements in that range",
    otherwise="nl.affine_range is Python's range, which indexes nothing",
    instead="slice: tensor[0:128, 0:512]",
    source="examples/playground/simple_nki_kernel.py of NKIPy at b91c980; nki-loops of NKI 0.7",
)
