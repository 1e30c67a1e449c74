"""Places of elements, made in SBUF where they are read."""

from __future__ import annotations

from trnsim.compiler.emit.walk import Frame, Span
from trnsim.errors import InternalError
from trnsim.graph.ops.leaves import Iota
from trnsim.lower.kernels.tiles import Tensor, dtype_of, new
from trnsim.nki import isa as nisa


def counted(frame: Frame, operation: Iota, span: Span) -> Tensor:
    """The place of each element of a span along the columns, [partitions, blocks, columns]."""
    if frame.shape != operation.shape:
        raise InternalError(f"{operation} is counted in {frame}")
    made = new((span.partitions, span.blocks, span.columns), dtype_of(operation.dtype))
    pattern = [[0, span.blocks], [1, span.columns]]
    nisa.iota(dst=made, pattern=pattern, offset=span.start, channel_multiplier=0)
    return made
