"""Concatenations, among them rotary embeddings: halves of a dimension exchanged, one negated.

Only the Tensor Engine and transfers move elements between partitions. For a rotary embedding the
Tensor Engine multiplies by a matrix of ones and minus ones, which is exact. The products stay in
PSUM, where the next instruction reads them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from trnsim.errors import InternalError
from trnsim.graph import Node
from trnsim.graph.ops.layout import Concatenate
from trnsim.graph.patterns import Producers
from trnsim.graph.rewriting import match_node
from trnsim.lower.emit.computing.concatenating import (
    emit_image_concatenation,
    emit_returned_concatenation,
)
from trnsim.lower.emit.emission import Emission
from trnsim.lower.emit.places.tensor_place import PendingResult, TensorPlace
from trnsim.lower.emit.places.walk import (
    Frame,
    TileSpan,
    axes_along,
    frame_in_hbm,
    frame_of,
    load_tile,
    runs,
    slice_of,
)
from trnsim.lower.kernels.tiles import Tensor, new
from trnsim.lower.patterns.rotation import ROTATION
from trnsim.lower.rules import emitter
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl


@emitter(Concatenate)
def concatenate(emission: Emission, node: Node) -> None:
    """Emit a concatenation: of images, ``concatenate(-x[half:], x[:half])``, or any other.

    The second kind is emitted as a rotation if the last dimension of `x` lies along the partitions.
    """
    if emit_image_concatenation(emission, node):
        return
    match = match_node(ROTATION, node, Producers(emission.facts.producers))
    if match is not None:
        source = match["x"]
        place = emission.materialize(source)[0]
        frame = frame_of(place) if place.is_on_chip else frame_in_hbm(place)
        if _can_rotate(place, frame, len(source.shape) - 1):
            rotation = PendingRotation(emission, place, frame)
            emission.places[node.result.number] = [rotation.place()]
            return
    if not emit_returned_concatenation(emission, node):
        emission.deferred.add_concatenation(node)


def _can_rotate(place: TensorPlace, frame: Frame, last: int) -> bool:
    """True if dimension `last` is innermost along the partitions, of even length, inside blocks."""
    width = frame.shape[last]
    if frame.p_dims[-1:] != (last,) or frame.block % width or width % 2:
        return False
    if not place.is_on_chip:
        return place.steps[last] != (1,)
    is_whole = place.offset[0] % frame.block == 0 and frame.rows == place.storage.rows
    return place.steps[last] == (1, 0) and is_whole and not place.storage.is_replicated


class PendingRotation(PendingResult):
    """A rotation that is computed when its result is read.

    Each block is multiplied by a matrix that exchanges its halves.
    """

    name = "rotate"

    def __init__(self, emission: Emission, source: TensorPlace, frame: Frame) -> None:
        self.emission, self.source, self.frame = emission, source, frame
        self.block = frame.block
        self.width = frame.shape[-1]

    def place(self) -> TensorPlace:
        """The place of the result: pending in this object."""
        return TensorPlace(self, self.frame.shape, self.frame.steps(), (0, 0))

    def chunk_columns(self) -> int:
        """All columns."""
        return int(self.frame.columns)

    def load_columns(self, start: int, columns: int) -> None:
        """Nothing has to be loaded."""

    def tile(self, span: TileSpan) -> Tensor:
        """A span of one block with the halves of the dimension exchanged, in PSUM."""
        sums = new((span.partitions, 1, span.columns), nl.float32, nl.psum)
        columns = axes_along(self.source, self.frame.f_dims)
        for at, length, _, _ in runs(columns, span.start, span.columns, len(self.source.offset)):
            moving = self._moving_tile(replace(span, start=span.start + at, columns=length))
            matrix = self._matrix(moving.dtype)
            nisa.nc_matmul(
                dst=sums[:, 0, at : at + length],
                stationary=matrix[: span.partitions, : span.partitions],
                moving=moving[:, 0],
            )
        return sums

    def _moving_tile(self, span: TileSpan) -> Tensor:
        """A block of the source, loaded if it lies in HBM."""
        if not self.source.is_on_chip:
            return load_tile(self.source, self.frame, span, self.source.storage.dtype)
        moving = slice_of(self.source, self.frame, span)
        if moving is None:
            raise InternalError(f"columns of {self.frame} do not lie evenly")
        return moving

    def _matrix(self, dtype: Any) -> Tensor:
        """The matrix that exchanges halves, made once for each dtype."""
        return self.emission.constants.get_or_make(
            ("rotation", self.width, dtype), lambda: self._make_matrix(dtype)
        )

    def _make_matrix(self, dtype: Any) -> Tensor:
        """The matrix [k, n] of factors with which element k enters element n of the result.

        Elements of the result's first half are those of the source's second half, negated; those
        of its second half are those of the source's first half.
        """
        half, size = self.width // 2, self.block
        tile = new((size, size), dtype)
        nisa.memset(dst=tile, value=0.0)
        number = new((size, half), nl.float32)
        for start in range(0, size, half):
            is_first = start // half % 2 == 0
            nisa.memset(dst=number, value=-1.0 if is_first else 1.0)
            diagonal = new((size, half), nl.float32)
            nisa.affine_select(
                dst=diagonal,
                pattern=[[-1, half]],
                offset=-(start + half) if is_first else -(start - half),
                channel_multiplier=1,
                on_true_tile=number,
                on_false_value=0.0,
                cmp_op=nl.equal,
            )
            nisa.tensor_copy(dst=tile[:, start : start + half], src=diagonal)
            number = new((size, half), nl.float32)
        return tile
