"""The gradient of maximum pooling: each element's sum over the windows whose maximum it is.

Where windows do not overlap, elements that lie equally far after a start are the same tap of their
windows. They are a phase, which is computed by itself from the gradients as they are. Long windows
that step by one are summed dimension by dimension. Other windows are padded for each tap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from trnsim.graph import TensorType, Value
from trnsim.graph.building.build import Build
from trnsim.graph.building.windows import Sizes, Windows


@dataclass(frozen=True, slots=True)
class _Phase:
    """Elements of a dimension that lie equally far after the start of a window.

    Attributes:
        count: number of elements.
        window: the last window that starts at or before the first element.
        taps: for each tap that can be at the first element, its distance from the start of its
            window, and the number of windows from its window to `window`.
    """

    count: int
    window: int
    taps: tuple[tuple[int, int], ...]

    def windows_before(self) -> int:
        """The number of windows that taps read before the first one."""
        return max((back - self.window for _, back in self.taps), default=0)

    def windows_after(self, count: int) -> int:
        """The number of windows that taps read after the last of `count` windows."""
        last = max((self.window - back for _, back in self.taps), default=-self.count)
        return last + self.count - count


def _phases(windows: Windows, dim: int, length: int) -> list[_Phase]:
    step, gap = windows.stride[dim], windows.dilation[dim]
    phases: list[_Phase] = []
    for first in range(min(step, length)):
        window, after = divmod(first + windows.padding[dim], step)
        places = [tap * gap for tap in range(windows.kernel[dim])]
        taps = [(at, (at - after) // step) for at in places if (at - after) % step == 0]
        phases.append(_Phase(-(-(length - first) // step), window, tuple(taps)))
    return phases


def sum_of_maxima(
    b: Build, windows: Windows, grad: Value, best_offset: Value, lengths: Sizes
) -> Value:
    """The gradient of an input of those lengths, from the flat offset of each window's maximum.

    `best_offset` is whole numbers in float32.
    """
    if set(windows.stride) == {1} and 2 * sum(windows.kernel) < prod(windows.kernel):
        return _dimension_by_dimension(b, windows, grad, best_offset, lengths)
    sizes = zip(windows.kernel, windows.stride, windows.dilation, strict=True)
    if all((taps - 1) * gap < step for taps, step, gap in sizes):
        return _phase_by_phase(b, windows, grad, best_offset, lengths)
    parts: list[Value] = []
    for place in windows.offsets():
        offset = sum(at * prod(lengths[dim + 1 :]) for dim, at in enumerate(place))
        is_best = b.ew("compare", best_offset, float(offset), dtype="bool", direction="EQ")
        parts.append(b.ew("select", is_best, grad, 0.0, dtype=grad.dtype))
    return windows.sum_tap_gradients(b, parts, lengths)


def _dimension_by_dimension(
    b: Build, windows: Windows, grad: Value, best_offset: Value, lengths: Sizes
) -> Value:
    """`sum_of_maxima` of windows that step by one, in as many steps as the sum of their lengths.

    Overlapping windows along a dimension whose maxima lie in the same row of the other dimensions
    have the same maximum: the first element with that value which all of them cover.
    """
    offset = best_offset
    for dim, length in enumerate(lengths):
        axis = len(grad.shape) - windows.rank + dim
        places, rest = _split(b, windows, offset, dim, lengths)
        (phase,) = _phases(windows, dim, length)
        low = max(0, phase.windows_before())
        high = max(0, phase.windows_after(grad.shape[axis]))
        before, after = ([n * (d == axis) for d in range(len(grad.shape))] for n in (low, high))
        grads, places, rest = (
            b.graph.pad(side, before, after, number=number)
            for side, number in ((grad, 0.0), (places, -1.0), (rest, -1.0))
        )
        terms: list[Value] = []
        offset = b.filled(-1.0, b.sliced(rest, axis, 0, length).type)
        for at, back in phase.taps:
            here, part, others = (
                b.sliced(side, axis, low + phase.window - back, length)
                for side in (places, grads, rest)
            )
            is_best = b.ew("compare", here, float(at), dtype="bool", direction="EQ")
            terms.append(b.ew("select", is_best, part, 0.0, dtype=grad.dtype))
            offset = b.ew("select", is_best, others, offset, dtype=offset.dtype)
        grad = b.total(terms)
    return grad


def _split(
    b: Build, windows: Windows, offset: Value, dim: int, lengths: Sizes
) -> tuple[Value, Value]:
    """The part along `dim` of flat offsets from windows that step by one, and the rest."""
    if dim == windows.rank - 1:
        return offset, b.filled(0.0, offset.type)
    scale, outer = prod(lengths[dim + 1 :]), len(offset.shape) - windows.rank
    element = offset  # its flat index within the dimensions after `dim`, plus rows of these
    for inner in range(dim + 1, windows.rank):
        window = b.convert(b.graph.iota(offset.shape, outer + inner), "float32")
        start = b.ew("add", window, -float(windows.padding[inner]))
        step = float(prod(lengths[inner + 1 :]))
        element = b.ew("add", element, b.ew("multiply", start, step))
    places = b.ew("floor", b.ew("multiply", b.ew("add", element, 0.5), 1 / scale))
    return places, b.ew("subtract", offset, b.ew("multiply", places, float(scale)))


def _phase_by_phase(
    b: Build, windows: Windows, grad: Value, best_offset: Value, lengths: Sizes
) -> Value:
    """`sum_of_maxima` of windows that do not overlap."""
    outer, counts = grad.shape[: -windows.rank], grad.shape[-windows.rank :]
    phases = [_phases(windows, dim, length) for dim, length in enumerate(lengths)]
    low = [max(0, *(phase.windows_before() for phase in dim)) for dim in phases]
    high = [
        max(0, *(phase.windows_after(count) for phase in dim))
        for dim, count in zip(phases, counts, strict=True)
    ]
    zeros = [0] * len(outer)
    grads, offsets = (
        b.graph.pad(side, [*zeros, *low], [*zeros, *high], number=number)
        for side, number in ((grad, 0.0), (best_offset, -1.0))
    )

    def summed(parts: Sequence[_Phase]) -> Value:
        shape = (*outer, *(part.count for part in parts))
        terms: list[Value] = []
        for taps in product(*(part.taps for part in parts)):
            starts = [
                before + part.window - back
                for before, part, (_, back) in zip(low, parts, taps, strict=True)
            ]
            offset = sum(at * prod(lengths[dim + 1 :]) for dim, (at, _) in enumerate(taps))
            here = b.graph.slice(offsets, (*zeros, *starts), shape)
            is_best = b.ew("compare", here, float(offset), dtype="bool", direction="EQ")
            part = b.graph.slice(grads, (*zeros, *starts), shape)
            terms.append(b.ew("select", is_best, part, 0.0, dtype=grad.dtype))
        return b.total(terms) if terms else b.filled(0, TensorType(shape, grad.dtype))

    sums = {
        numbers: summed([dim[number] for dim, number in zip(phases, numbers, strict=True)])
        for numbers in product(*(range(len(dim)) for dim in phases))
    }
    return _interleaved(b, sums, lengths)


def _interleaved(b: Build, sums: Mapping[tuple[int, ...], Value], lengths: Sizes) -> Value:
    """The sums of all phases, by their numbers, one after the other along each dimension."""
    rank = len(lengths)
    for dim in reversed(range(rank)):
        groups: dict[tuple[int, ...], list[Value]] = {}
        for numbers, value in sorted(sums.items()):
            groups.setdefault(numbers[:-1], []).append(value)
        axis = len(next(iter(sums.values())).shape) - rank + dim
        sums = {
            outer: _alternating(b, parts, axis, lengths[dim]) for outer, parts in groups.items()
        }
    return sums[()]


def _alternating(b: Build, parts: Sequence[Value], axis: int, length: int) -> Value:
    """The first elements of all parts along an axis, then the second ones; at most `length`."""
    if len(parts) == 1:
        return parts[0]
    length_of_part = parts[0].shape[axis]
    wide: list[Value] = []
    for part in parts:
        missing = [length_of_part - n if dim == axis else 0 for dim, n in enumerate(part.shape)]
        full = b.graph.pad(part, [0] * len(missing), missing)
        shape = full.shape
        wide.append(b.graph.reshape(full, (*shape[: axis + 1], 1, *shape[axis + 1 :])))
    joined = b.graph.concatenate(wide, axis + 1)
    before, after = joined.shape[:axis], joined.shape[axis + 2 :]
    flat = b.graph.reshape(joined, (*before, length_of_part * len(parts), *after))
    return b.sliced(flat, axis, 0, length)
