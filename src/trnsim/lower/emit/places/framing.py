"""The choice of the frame in which a value is computed: which dimensions lie on partitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from math import prod
from typing import TYPE_CHECKING, Final

from trnsim.graph import Graph, Kind, Node, Value
from trnsim.graph.ops.contraction import Convolution
from trnsim.graph.ops.layout import BroadcastInDim
from trnsim.graph.ops.reductions import ReduceWindow
from trnsim.graph.types import Shape
from trnsim.lower.emit.places.paths import is_widening
from trnsim.lower.emit.places.tensor_place import TensorPlace
from trnsim.lower.emit.places.walk import (
    Frame,
    axes_along,
    frame_in_hbm,
    frame_of,
    has_loadable_columns,
    row_major_frame,
)
from trnsim.lower.emit.window_sums import is_of_windows, partition_dims

if TYPE_CHECKING:
    from trnsim.lower.emit.emission import Emission

_FEW_ROWS: Final = 32
"""Fewest rows of a repeated operand that decides the frame."""
_MANY_FEATURES: Final = 256
"""Shortest last dimension that lies along the partitions if rows are few."""


def choose_frame(
    emission: Emission, value: Value, leaves: Iterable[TensorPlace], numbers: set[int]
) -> Frame:
    """The frame in which to compute a value: that of a pending operand, else of one on the chip.

    Without such operands, the frame suits the value's readers or the operands in HBM.

    Args:
        emission: the program.
        value: the value that is computed.
        leaves: the places of the operands, in the shape that is computed.
        numbers: `Value.number` of each operand.
    """
    shape, leaves = value.shape, list(leaves)
    covering = [place for place in leaves if has_no_repeats(place)]
    first = [place for place in covering if place.is_pending] + [
        place for place in covering if place.is_on_chip
    ]
    if not covering:
        several = [place for place in leaves if any(map(any, place.steps))]
        first = [place for place in several if place.is_on_chip and place.storage.rows >= _FEW_ROWS]
    if first:
        return frame_of(first[0])
    frame = _channel_frame(emission, value, leaves)
    if frame is None and shape and numbers & emission.facts.feature_values:
        frame = _feature_frame(value)
    return frame or _hbm_frame(value, covering)


def _channel_frame(emission: Emission, value: Value, leaves: list[TensorPlace]) -> Frame | None:
    """The frame with channels along the partitions, for images and vectors of channels; or None."""
    shape = value.shape
    if any(is_by_channels(node, value) for node in emission.facts.readers(value)):
        return Frame(shape, (1,), (0, *range(2, len(shape))))
    is_padded = any(is_of_windows(emission.facts, node) for node in emission.facts.readers(value))
    if (is_padded or value.number in emission.facts.window_sums.operands) and value.shape:
        p_dims = partition_dims(shape)
        return Frame(shape, p_dims, tuple(dim for dim in range(len(shape)) if dim not in p_dims))
    if value.number in emission.facts.channel_vectors:
        return Frame(shape, tuple(range(len(shape))), ())
    channels = [dim for dim in map(_channels_of, leaves) if dim is not None]
    if channels and len(shape) > 2:  # noqa: PLR2004  a matrix
        dim = channels[0]
        return Frame(shape, (dim,), tuple(other for other in range(len(shape)) if other != dim))
    return _image_frame(shape, leaves) or _readers_frame(emission, value, leaves)


def _readers_frame(emission: Emission, value: Value, leaves: list[TensorPlace]) -> Frame | None:
    """The frame with channels along the partitions, if images are combined with channel vectors.

    In another frame the elements of such a vector would be copied one by one. None if no reader,
    nor a reader of an elementwise result, combines them, or if leaves have another layout.
    """
    shape, waiting, visited = value.shape, [value], set[int]()
    producer = emission.facts.producers.get(value.number)
    if producer is None or is_widening(producer):
        return None  # a widened value is not stored: each reader converts it
    while waiting:
        current = waiting.pop()
        for node in emission.facts.readers(current):
            is_alike = node.kind is Kind.ELEMENTWISE and node.result.shape == shape
            if not is_alike or node.result.number in visited:
                continue
            visited.add(node.result.number)
            waiting.append(node.result)
            for operand in node.values:
                dim = _repeated_channel(emission.facts.producers.get(operand.number))
                if dim is None:
                    continue
                others = tuple(other for other in range(len(shape)) if other != dim)
                frame = Frame(shape, (dim,), others)
                is_near = all(_is_row_major(p) or _is_repeated_in(p, frame) for p in leaves)
                return frame if is_near else None
    return None


def _is_repeated_in(place: TensorPlace, frame: Frame) -> bool:
    """True for a leaf in SBUF that only has to be repeated along a frame's columns."""
    return place.is_on_chip and not has_no_repeats(place) and has_loadable_columns(place, frame)


def _repeated_channel(node: Node | None) -> int | None:
    """The dimension along which a vector of channels is repeated over images; else None."""
    if node is None or not isinstance(node.operation, BroadcastInDim):
        return None
    pairs = zip(node.operation.dims, node.values[0].shape, strict=True)
    long = [dim for dim, length in pairs if length > 1]
    if len(long) != 1:
        return None
    images = [length for length in node.result.shape[long[0] + 1 :] if length > 1]
    return long[0] if len(images) > 1 else None


def _is_row_major(place: TensorPlace) -> bool:
    """True if a leaf lies in HBM in row-major order."""
    return (
        not (place.is_on_chip or place.is_pending or place.is_generated)
        and has_no_repeats(place)
        and frame_in_hbm(place) == row_major_frame(place.shape)
    )


def _image_frame(shape: Shape, leaves: list[TensorPlace]) -> Frame | None:
    """The frame with one channel of one image on each partition.

    None unless a leaf has one number for each channel of each image, and all other leaves are
    row-major in HBM.
    """
    frame = None
    for place in leaves:
        if _is_row_major(place):
            continue
        images = [dim for dim, step in enumerate(place.steps) if not any(step) and shape[dim] > 1]
        first = min(images, default=0)
        is_last = images == [dim for dim in range(first, len(shape)) if shape[dim] > 1]
        if len(images) == 1 or not is_last or len(axes_along(place, range(first))) != 1:
            return None
        frame = Frame(shape, tuple(range(first)), tuple(range(first, len(shape))))
    return frame


def _feature_frame(value: Value) -> Frame:
    """The frame with the last dimension along the partitions."""
    last = len(value.shape) - 1
    return Frame(value.shape, (last,), tuple(range(last)))


def _hbm_frame(value: Value, places: list[TensorPlace]) -> Frame:
    """The frame for operands in HBM: that of a transposed operand, else of the first operand.

    With few rows, a long last dimension lies along the partitions instead.
    """
    shape = value.shape
    # A value that was computed transposed in HBM stays transposed.
    frames = [frame_in_hbm(place) for place in places]
    across = [frame for frame in frames if len(shape) - 1 in frame.p_dims]
    frame = (across or frames or [row_major_frame(shape)])[0]
    if frame.rows < _FEW_ROWS and value.type.is_floating and shape:
        is_wide = shape[-1] >= _MANY_FEATURES and frame.f_dims[-1:] == (len(shape) - 1,)
        return _feature_frame(value) if is_wide else frame
    return frame


def is_by_channels(node: Node, value: Value) -> bool:
    """True if a node reads a value as images, with channels along the partitions."""
    return isinstance(node.operation, Convolution | ReduceWindow) and node.values[0] is value


def _channels_of(place: TensorPlace) -> int | None:
    """The only dimension along which a leaf's elements differ; None if there are more.

    Also None if it is the last dimension.
    """
    moves = [dim for dim, step in enumerate(place.steps) if any(step)]
    long = [dim for dim, length in enumerate(place.shape) if length > 1]
    is_single = len(moves) == 1 and len(long) > 1 and moves[0] < long[-1]
    return moves[0] if is_single else None


def channel_vectors(graph: Graph) -> frozenset[int]:
    """Numbers of the vectors of channels: values that are repeated along the last dimension."""
    readers: defaultdict[int, list[Node]] = defaultdict(list)
    for node in graph.nodes:
        for value in node.values:
            readers[value.number].append(node)
    vectors: set[int] = set()
    results = [value for node in graph.nodes for value in node.results]
    for value in reversed([*graph.inputs, *results]):
        is_vector = prod(value.shape) == max(value.shape, default=0)
        if is_vector and _is_channel_vector(readers[value.number], vectors):
            vectors.add(value.number)
    return frozenset(vectors)


def _is_channel_vector(readers: list[Node], vectors: set[int]) -> bool:
    """True if the first reader that broadcasts a vector repeats it along the last dimension.

    An elementwise reader counts too if its result is one of `vectors`.
    """
    for node in readers:
        if isinstance(node.operation, BroadcastInDim):
            last = len(node.result.shape) - 1
            return bool(node.operation.dims) and node.operation.dims[-1] != last
        if node.kind is Kind.ELEMENTWISE and node.result.number in vectors:
            return True
    return False


def has_no_repeats(place: TensorPlace) -> bool:
    """True if no dimension of a leaf is repeated by a stride of 0."""
    return all(any(step) for step, n in zip(place.steps, place.shape, strict=True) if n > 1)
