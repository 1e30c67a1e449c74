"""Tensors and the functions of `nki.language`: views, copies, stores."""

from __future__ import annotations

from typing import Final

from trnsim.behaviours.behaviour import Behaviour, Effect

_NOTES = "release notes of NKI"

AP_OFFSET_ADDS: Final = Behaviour(
    name="ap-offset-adds",
    since="0.5",
    rule="tensor.ap(offset=) adds to the offset of the view, which None keeps",
    otherwise="tensor.ap(offset=) counts from the start of the storage, and is 0 if left out",
    instead="take ap of the whole tensor and give the offset from its start",
    source="nki.language.NkiTensor.ap of v2.30 and v2.31",
    effect=Effect.values,
)
RESHAPE_KEEPS_ELEMENTS: Final = Behaviour(
    name="reshape-keeps-elements",
    since="0.5",
    rule="tensor.reshape checks that the number of elements stays",
    otherwise="tensor.reshape does not check the number of elements",
    instead="give a shape of as many elements",
    source="nki/migration/index.rst, NkiTensor.reshape",
)
COPY_IS_EXACT: Final = Behaviour(
    name="copy-is-exact",
    since="0.6",
    rule="nl.copy is a tensor_copy of the Vector Engine, of a tile in SBUF or PSUM, exact",
    otherwise="nl.copy goes through float32 on the Scalar Engine and takes no tile in PSUM",
    instead="use nisa.tensor_copy(dst, src)",
    source=f"{_NOTES} 0.6, nki.language.copy; of NKI 0.3, Known Issues, Data Movement",
    effect=Effect.values,
)
STORE_REFUSES_PSUM: Final = Behaviour(
    name="store-refuses-psum",
    since="0.3",
    rule="nl.store takes no tile in PSUM",
    otherwise="nl.store does not exist",
    instead="copy the tile to SBUF first: nl.copy(tile)",
    source=f"{_NOTES} 0.3, Known Issues, Data Movement",
)
RSQRT_ON_GPSIMD: Final = Behaviour(
    name="rsqrt-on-gpsimd",
    since="0.5",
    rule="nl.rsqrt runs on GpSimd, more precisely, and takes no tile in PSUM",
    otherwise="nl.rsqrt runs on the Scalar Engine and takes a tile in PSUM",
    instead="use nisa.activation(dst, nl.rsqrt, data)",
    source="nki/migration/index.rst, nki.language.rsqrt",
)
