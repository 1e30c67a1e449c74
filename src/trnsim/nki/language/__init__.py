"""`nki.language`: tensors, dtypes, loops and functions of tiles, under AWS's names.

Source: nki.language.
"""

from typing import Any

from trnsim.nki.absent import VersionedNames
from trnsim.nki.language import dtypes as dtypes
from trnsim.nki.language import legacy, math, reductions
from trnsim.nki.language.creation import (
    empty_like,
    full,
    hbm,
    is_hbm,
    is_on_chip,
    is_psum,
    is_sbuf,
    ndarray,
    ones,
    private_hbm,
    psum,
    rand,
    random_seed,
    sbuf,
    shared_constant,
    shared_hbm,
    shared_identity_matrix,
    zeros,
    zeros_like,
)
from trnsim.nki.language.dtypes import DType, fp32
from trnsim.nki.language.grids import (
    NkiBlockGrid,
    NkiGrid,
    NkiTileGrid,
    alloc_blocks,
    alloc_tiles,
    blocks,
    tiles,
)
from trnsim.nki.language.launch import device_print, num_programs, program_id, program_ndim
from trnsim.nki.language.legacy import par_dim
from trnsim.nki.language.loops import (
    affine_range,
    dynamic_range,
    fori_loop,
    no_reorder,
    sequential_range,
    static_range,
    while_loop,
)
from trnsim.nki.language.movement import (
    broadcast_to,
    expand_dims,
    gather_flattened,
    load,
    load_transpose2d,
    matmul,
    store,
    transpose,
)
from trnsim.nki.language.objects import NKIObject
from trnsim.nki.language.tile_size import TileSize, tile_size
from trnsim.nki.language_operators import OPERATORS
from trnsim.nki.tensor import DynamicSlice as ds  # noqa: N813  AWS's name
from trnsim.nki.tensor import MemoryRegion, NkiTensor

__all__ = [
    "DType",
    "MemoryRegion",
    "NKIObject",
    "NkiBlockGrid",
    "NkiGrid",
    "NkiTensor",
    "NkiTileGrid",
    "TileSize",
    "affine_range",
    "alloc_blocks",
    "alloc_tiles",
    "blocks",
    "broadcast_to",
    "device_print",
    "ds",
    "dtypes",
    "dynamic_range",
    "empty_like",
    "expand_dims",
    "fori_loop",
    "fp32",
    "full",
    "gather_flattened",
    "hbm",
    "is_hbm",
    "is_on_chip",
    "is_psum",
    "is_sbuf",
    "load",
    "load_transpose2d",
    "matmul",
    "ndarray",
    "no_reorder",
    "num_programs",
    "ones",
    "par_dim",
    "private_hbm",
    "program_id",
    "program_ndim",
    "psum",
    "rand",
    "random_seed",
    "sbuf",
    "sequential_range",
    "shared_constant",
    "shared_hbm",
    "shared_identity_matrix",
    "static_range",
    "store",
    "tile_size",
    "tiles",
    "transpose",
    "while_loop",
    "zeros",
    "zeros_like",
]

globals().update({name: getattr(dtypes, name) for name in dtypes.NAMES})
globals().update(OPERATORS)
globals().update(math.FUNCTIONS)
globals().update(reductions.FUNCTIONS)
globals()["range"] = range  # public kernels write nl.range


_VERSIONED_NAMES = VersionedNames(__name__, "nki.language", legacy.explain, "nl")
_VERSIONED_NAMES.withdraw(globals())


def __getattr__(name: str) -> Any:
    return _VERSIONED_NAMES.serve(name)


def __dir__() -> list[str]:
    return _VERSIONED_NAMES.names(globals())
