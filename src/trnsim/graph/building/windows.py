"""Windows that slide over the last dimensions of a tensor.

Each place within the window (a tap) is one strided view of the input; a fused kernel reads it where
it lies. On the way back each tap's gradient is padded to where it came from.
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
    """Windows over the last dimensions.

    Attributes:
        kernel: their size.
        stride: how far one is from the next.
        padding: how far before the input the first one begins.
        dilation: how far its taps are from one another.
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def rank(self) -> int:
        """How many dimensions they have."""
        return len(self.kernel)

    def offsets(self) -> Iterator[tuple[int, ...]]:
        """Where each tap lies in the window."""
        for tap in product(*(range(size) for size in self.kernel)):
            yield tuple(at * step for at, step in zip(tap, self.dilation, strict=True))

    def places(self, lengths: Sizes) -> tuple[int, ...]:
        """How many whole windows there are over dimensions of those lengths."""
        return tuple(
            (n + 2 * pad - gap * (size - 1) - 1) // step + 1
            for n, size, step, pad, gap in zip(
                lengths, self.kernel, self.stride, self.padding, self.dilation, strict=True
            )
        )

    def beyond(self, lengths: Sizes, places: Sizes) -> tuple[int, ...]:
        """How far the last windows reach beyond the end of each dimension."""
        return tuple(
            (count - 1) * step + (size - 1) * gap + 1 - pad - n
            for n, count, size, step, pad, gap in zip(
                lengths,
                places,
                self.kernel,
                self.stride,
                self.padding,
                self.dilation,
                strict=True,
            )
        )

    def padded(self, b: Build, x: Value, places: Sizes, number: float = 0.0) -> Value:
        """`x` with what the windows reach beyond it."""
        outer = [0] * (len(x.shape) - self.rank)
        high = self.beyond(x.shape[len(outer) :], places)
        return b.graph.pad(x, [*outer, *self.padding], [*outer, *high], number=number)

    def reduction(self, op: str, shape: Sizes, places: Sizes) -> ReduceWindow:
        """The reduction of each of so many windows over a tensor of that shape."""
        outer = len(shape) - self.rank
        ones, zeros = (1,) * outer, (0,) * outer
        return ReduceWindow(
            lengths=(*ones, *self.kernel),
            strides=(*ones, *self.stride),
            low=(*zeros, *self.padding),
            high=(*zeros, *self.beyond(shape[outer:], places)),
            op=op,
            dilations=(*ones, *self.dilation),
        )

    def taps(self, b: Build, x: Value, places: Sizes) -> list[Value]:
        """For each tap, the elements of a padded input under it."""
        outer = x.shape[: -self.rank]
        ones, zeros = [1] * len(outer), [0] * len(outer)
        shape, steps = (*outer, *places), (*ones, *self.stride)
        return [b.graph.slice(x, (*zeros, *at), shape, steps) for at in self.offsets()]

    def put_back(self, b: Build, parts: Sequence[Value], lengths: Sizes) -> Value:
        """The sum of what each tap gives to the elements under it, of an input of those lengths."""
        terms: list[Value] = []
        outer = [0] * (len(parts[0].shape) - self.rank)
        for part, at in zip(parts, self.offsets(), strict=True):
            low = [place - pad for place, pad in zip(at, self.padding, strict=True)]
            high = [
                n - before - (count - 1) * step - 1
                for n, before, count, step in zip(
                    lengths, low, part.shape[len(outer) :], self.stride, strict=True
                )
            ]
            gaps = [step - 1 for step in self.stride]
            terms.append(b.graph.pad(part, [*outer, *low], [*outer, *high], [*outer, *gaps]))
        return b.total(terms)
