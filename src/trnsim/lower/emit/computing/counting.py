"""Places of elements, made in SBUF where they are read."""

from __future__ import annotations

from trnsim.errors import InternalError
from trnsim.graph.ops.leaves import Iota
from trnsim.lower.emit.places.walk import Frame, Span
from trnsim.lower.kernels.tiles import Tensor, dtype_of, new
from trnsim.nki import isa as nisa


def counted(frame: Frame, operation: Iota, span: Span) -> Tensor:
    """The place of each element of a span along the columns, [partitions, blocks, columns].

    In the rows of a long line each row goes on where the one before it ends.
    """
    is_line = len(operation.shape) == 1 and frame.shape == (frame.rows, frame.columns)
    if frame.shape != operation.shape and not is_line:
        raise InternalError(f"{operation} is counted in {frame}")
    row = frame.columns if frame.shape != operation.shape else 0
    made = new((span.partitions, span.blocks, span.columns), dtype_of(operation.dtype))
    pattern = [[frame.block * row, span.blocks], [1, span.columns]]
    first = span.block * frame.block * row + span.start
    nisa.iota(dst=made, pattern=pattern, offset=first, channel_multiplier=row)
    return made
