"""Windows that slide over the last dimensions of a tensor.

Each position within the window (a tap) is a strided view of the input, which a fused kernel reads
in place. In the backward pass each tap's gradient is padded to the input's positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from trnsim.graph import Value
from trnsim.graph.building.build import Build
from trnsim.graph.ops.reductions import ReduceWindow

Sizes = Sequence[int]


@dataclass(frozen=True)
class Windows:
    """Windows over the last dimensions, an entry for each of these.

    Attributes:
        kernel: lengths of a window, in taps.
        stride: distance between windows.
        padding: distance by which the first window begins before the input.
        dilation: distance between taps.
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def rank(self) -> int:
        """Number of dimensions of a window."""
        return len(self.kernel)

    def offsets(self) -> Iterator[tuple[int, ...]]:
        """The offset of each tap in the window."""
        for tap in product(*(range(size) for size in self.kernel)):
            yield tuple(index * step for index, step in zip(tap, self.dilation, strict=True))

    def counts(self, lengths: Sizes) -> tuple[int, ...]:
        """The number of whole windows along dimensions of those lengths."""
        return tuple(
            (n + 2 * pad - gap * (size - 1) - 1) // step + 1
            for n, size, step, pad, gap in zip(
                lengths, self.kernel, self.stride, self.padding, self.dilation, strict=True
            )
        )

    def overhang(self, lengths: Sizes, counts: Sizes) -> tuple[int, ...]:
        """The distance by which the last windows reach beyond the end of each dimension."""
        return tuple(
            (count - 1) * step + (size - 1) * gap + 1 - pad - n
            for n, count, size, step, pad, gap in zip(
                lengths,
                counts,
                self.kernel,
                self.stride,
                self.padding,
                self.dilation,
                strict=True,
            )
        )

    def pad_to_windows(self, b: Build, x: Value, counts: Sizes, number: float = 0.0) -> Value:
        """`x` padded to the extent of the windows."""
        outer = [0] * (len(x.shape) - self.rank)
        high = self.overhang(x.shape[len(outer) :], counts)
        return b.graph.pad(x, [*outer, *self.padding], [*outer, *high], number=number)

    def reduction(self, op: str, shape: Sizes, counts: Sizes) -> ReduceWindow:
        """The operation that reduces each of `counts` windows over a tensor of that shape."""
        outer = len(shape) - self.rank
        ones, zeros = (1,) * outer, (0,) * outer
        return ReduceWindow(
            lengths=(*ones, *self.kernel),
            strides=(*ones, *self.stride),
            low=(*zeros, *self.padding),
            high=(*zeros, *self.overhang(shape[outer:], counts)),
            op=op,
            dilations=(*ones, *self.dilation),
        )

    def taps(self, b: Build, x: Value, counts: Sizes) -> list[Value]:
        """For each tap, the elements of a padded input under it."""
        outer = x.shape[: -self.rank]
        ones, zeros = [1] * len(outer), [0] * len(outer)
        shape, steps = (*outer, *counts), (*ones, *self.stride)
        return [b.graph.slice(x, (*zeros, *offset), shape, steps) for offset in self.offsets()]

    def taps_along(self, b: Build, x: Value, dim: int, starts: Sizes, count: int) -> list[Value]:
        """For each start, the elements under one tap of `count` windows along `dim`."""
        axis = len(x.shape) - self.rank + dim
        shape, steps = [*x.shape], [1] * len(x.shape)
        shape[axis], steps[axis] = count, self.stride[dim]
        zeros = [0] * len(x.shape)
        return [
            b.graph.slice(x, (*zeros[:axis], start, *zeros[axis + 1 :]), shape, steps)
            for start in starts
        ]

    def sum_tap_gradients(self, b: Build, parts: Sequence[Value], lengths: Sizes) -> Value:
        """The sum of the taps' gradients at their elements, for an input of those lengths."""
        terms: list[Value] = []
        outer = [0] * (len(parts[0].shape) - self.rank)
        for part, offset in zip(parts, self.offsets(), strict=True):
            low = [place - pad for place, pad in zip(offset, self.padding, strict=True)]
            high = [
                n - before - (count - 1) * step - 1
                for n, before, count, step in zip(
                    lengths, low, part.shape[len(outer) :], self.stride, strict=True
                )
            ]
            gaps = [step - 1 for step in self.stride]
            terms.append(b.graph.pad(part, [*outer, *low], [*outer, *high], [*outer, *gaps]))
        return b.total(terms)
