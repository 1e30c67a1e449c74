"""The keys of ``tensor[...]``, and dynamic addresses.

Source: nki.language.NkiTensor, __getitem__ and ap.
"""

from __future__ import annotations

import operator
from dataclasses import replace
from types import EllipsisType
from typing import Any, Final, NamedTuple, NoReturn, Protocol

from trnsim.behaviours.language import DYNAMIC_VARIABLE_IS_REGISTER
from trnsim.behaviours.tensors import RANGE_INDEXES
from trnsim.dtypes import BOOL, BY_NAME, INT32, INT64
from trnsim.enumerations import Enumeration
from trnsim.errors import IllegalInstruction, NotModelled
from trnsim.isa import Scalar, VirtualRegister
from trnsim.memory import AccessPattern, Index, Memory, ScalarIndex, SnakeIndex, Tile, VectorIndex
from trnsim.nki.arguments import SOURCE, check_tensor, documented_class, integers
from trnsim.nki.dialect import require
from trnsim.nki.scalars import require_in_turn


class MemoryRegion(Enumeration, public="nl.MemoryRegion"):
    """The memory region of `nl.ndarray`. `hbm` is an alias of `private_hbm`."""

    sbuf = "sbuf"
    psum = "psum"
    private_hbm = "private_hbm"
    shared_hbm = "shared_hbm"

    # Members are keys of dictionaries, and Enum's own hash is slow Python code.
    __hash__ = object.__hash__

    def __init__(self, label: str) -> None:
        """The region with its label; `memory` is its physical memory."""
        self.memory = Memory(label.rpartition("_")[2].upper())


@documented_class("nl.ds")
class DynamicSlice(NamedTuple):
    """`nl.ds(start, size)`: `size` elements from `start` on; `start` may be a register."""

    start: int | VirtualRegister
    size: int


_REACH_OF_INT32_BYTES = 2**32
"""nki.isa.scalar_load: "beyond the 4GB reach of a 32-bit byte offset"."""
_STATIC_BOUNDS = frozenset({int, type(None)})


def cache_key(keys: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """A dictionary key for integers, slices and `nl.ds` of integers; None for other keys.

    Only values of type int count as integers: 1.0 and True equal 1 but are different indices.
    """
    key_parts: list[Any] = []
    for key in keys:
        kind = key.__class__
        if kind is slice:
            start, stop, step = span = key.start, key.stop, key.step
            if (
                start.__class__ not in _STATIC_BOUNDS
                or stop.__class__ not in _STATIC_BOUNDS
                or step.__class__ not in _STATIC_BOUNDS
            ):
                return None
            key_parts.append(span)
        elif kind is int or (kind is DynamicSlice and _STATIC_BOUNDS.issuperset(map(type, key))):
            key_parts.append(key)
        else:
            return None
    return tuple(key_parts)


class Shaped(Protocol):
    """A tensor, or an object that is indexed like a tensor."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the dimensions."""
        ...


def expand_keys(keys: tuple[Any, ...], tensor: Shaped) -> list[Any]:
    """The keys with Ellipsis and missing trailing dimensions expanded.

    Raises:
        IllegalInstruction: for more keys than dimensions, or two Ellipses.
    """
    indices = [key for key in keys if not isinstance(key, EllipsisType)]
    missing_dims = len(tensor.shape) - len(indices)
    if missing_dims < 0 or len(keys) - len(indices) > 1:
        raise IllegalInstruction(
            f"{len(indices)} indices for {tensor}, which has {len(tensor.shape)} dimensions",
            fix="index each dimension at most once",
            source=SOURCE,
        )
    full_slices = [slice(None)] * missing_dims
    for position, index in enumerate(keys):
        if isinstance(index, EllipsisType):
            return [*keys[:position], *full_slices, *keys[position + 1 :]]
    return [*keys, *full_slices]


def static_part(index: Any) -> tuple[VirtualRegister | None, Any]:
    """The register of a dynamic index, or None, and the index with 0 for the register.

    Raises:
        NotModelled: for a scalar between brackets.
    """
    bounds = (index.start, index.stop, index.step) if isinstance(index, slice) else ()
    start = index.start if isinstance(index, DynamicSlice) else index
    if isinstance(start, VirtualRegister):
        _check_offset(start)
    if any(isinstance(bound, Scalar) for bound in (start, *bounds)):
        refuse_scalar("tensor[...] and nl.ds")
    if isinstance(index, VirtualRegister):
        return index, 0
    if isinstance(index, DynamicSlice) and isinstance(index.start, VirtualRegister):
        return index.start, DynamicSlice(0, index.size)
    return None, index


def _check_offset(register: VirtualRegister) -> None:
    """Refuse a variable of nl.dynamic_range as an offset in versions of NKI that refuse it.

    Raises:
        IllegalInstruction: for such a variable, and for a register computed from it.
    """
    if not register.is_offset:
        require(DYNAMIC_VARIABLE_IS_REGISTER, "the variable of nl.dynamic_range as an offset")


def refuse_scalar(call: str) -> NoReturn:
    """Refuse a scalar in a place for which AWS's documents do not say whether it is legal.

    Raises:
        NotModelled: always.
    """
    raise NotModelled(
        f"{call} with an NkiScalar; emulated: scalars as scalar_offset of an access pattern, as "
        "nothing public says that it may stand here",
        fix="address with tensor.ap([[stride, count], ...], scalar_offset=scalar)",
        source="nki.isa.NkiScalar",
    )


def start_end_step(index: Any, length: int) -> tuple[int, int, int, bool]:
    """Unclamped (start, end, step) of an index, and True unless the index drops its dimension.

    The index is a slice, an `nl.ds` or an integer, and only an integer drops its dimension.

    An nl.affine_range, which is an object of its own before NKI 0.7, is a slice.

    Raises:
        IllegalInstruction: for any other key.
    """
    index = getattr(index, "span", index)  # nl.affine_range
    if isinstance(index, slice):
        start, end, step = integers(
            "slice",
            0 if index.start is None else index.start,
            length if index.stop is None else index.stop,
            1 if index.step is None else index.step,
        )
        return start + length * (start < 0), end + length * (end < 0), step, True
    if isinstance(index, DynamicSlice):
        start, size = integers("nl.ds", index.start, index.size)
        return start, start + size, 1, True
    position: Any = index
    if isinstance(index, range):
        require(RANGE_INDEXES, "nl.affine_range between brackets")
    try:
        start = operator.index(position)
    except TypeError:
        raise IllegalInstruction(
            f"an index of type {type(index).__name__}; legal: integers, slices, nl.ds, Ellipsis",
            fix="index with integers; tensors index through .ap(vector_offset=...)",
            source=SOURCE,
        ) from None
    start += length * (start < 0)
    return start, start + 1, 1, False


def index_text(index: Any) -> str:
    """An index as a program writes it: "-9", "2:8", "nl.ds(0, 4)"."""
    if isinstance(index, slice):
        bounds = [index.start, index.stop, *([index.step] if index.step is not None else [])]
        return ":".join("" if bound is None else str(bound) for bound in bounds)
    return f"nl.ds({index.start}, {index.size})" if isinstance(index, DynamicSlice) else str(index)


def check_within(index: Any, span: tuple[int, int, int, bool], dim: int, length: int) -> None:
    """Refuse an index beyond a dimension of `length` elements; slices may be empty.

    Args:
        index: the index as the program has it, for the error.
        span: its `start_end_step`.
        dim: the dimension.
        length: its number of elements.

    Raises:
        IllegalInstruction: if it is not within the dimension.
    """
    start, end, step, is_slice = span
    if start >= 0 and end <= length and step >= 1 and start < end + is_slice:
        return
    if is_slice:
        kind, fix = "slice", "keep the slice within the tensor"
        legal = f"from 0 to {length}, start <= end, step >= 1"
    else:
        kind, fix = "index", "keep the index within the tensor"
        legal = f"0 to {length - 1}, and from the end -1 to {-length}"
    raise IllegalInstruction(
        f"{kind} {index_text(index)} of dimension {dim}, which has {length} elements; "
        f"legal: {legal}",
        fix=fix,
        source=SOURCE,
    )


def dynamic_index(
    pattern: AccessPattern,
    scalar: Tile | VirtualRegister | Scalar | None,
    vector: Tile | None,
    dim: int,
    *,
    is_on_chip: bool,
) -> Index | None:
    """The dynamic address of an access pattern (`tensor.ap`); None for a static one.

    Args:
        pattern: access pattern of the whole tensor.
        scalar: `scalar_offset`, in steps along the dimension `dim`.
        vector: `vector_offset`, one offset for each row, in the same steps.
        dim: `indirect_dim`, the dimension whose stride is the step.
        is_on_chip: whether the tensor is in SBUF or PSUM.

    Raises:
        IllegalInstruction: for two offsets at once, an offset that is no integer, or a 64-bit
            offset of a tensor on chip.
    """
    if scalar is not None and vector is not None:
        raise IllegalInstruction(
            "ap with scalar_offset and vector_offset; legal: one of the two",
            fix="name one of them",
            source=f"{SOURCE}.ap",
        )
    if dim.__class__ is not int or dim:
        dim = pattern.axis(*integers("ap, indirect_dim", dim, source=f"{SOURCE}.ap"))
    step, limit = pattern.strides_bytes[dim], pattern.shape[dim]
    if vector is not None:
        if dim:
            raise IllegalInstruction(
                f"a vector_offset with indirect_dim={dim}; legal: 0",
                fix="permute the dimension to the front before storing it to HBM",
                source="nki-aps.rst, Dynamic Access",
            )
        return VectorIndex(_offsets("vector_offset", vector), step, limit)
    if scalar is None:
        return None
    if isinstance(scalar, VirtualRegister):
        _check_offset(scalar)
        return ScalarIndex(scalar, step, limit)
    if isinstance(scalar, Scalar):
        return _scalar_index(scalar, step, limit, is_on_chip=is_on_chip)
    offset = _offsets("scalar_offset", scalar)
    if offset.memory is not Memory.SBUF or offset.pattern.elements != 1:
        raise IllegalInstruction(
            f"scalar_offset is {offset}; legal: one element in SBUF, or a register",
            fix="copy it to SBUF, and slice one element of it",
            source=f"{SOURCE}.ap",
        )
    return ScalarIndex(offset, step, limit)


def _scalar_index(scalar: Scalar, step: int, limit: int, *, is_on_chip: bool) -> ScalarIndex:
    """The dynamic address of a scalar offset; an int32 offset reaches the tensor's first 4 GiB.

    Args:
        scalar: the offset, in steps.
        step: bytes of a step.
        limit: number of steps in the tensor.
        is_on_chip: whether the tensor is in SBUF or PSUM.

    Raises:
        IllegalInstruction: for the result of a comparison, or for int64 on chip.
    """
    source = "nki.isa.scalar_load"
    require_in_turn(scalar)
    if scalar.is_comparison:
        raise IllegalInstruction(
            f"scalar_offset is {scalar!r}; legal: scalars of nl.int32 and nl.int64, as nothing can "
            "use the result of a comparison",
            fix="compute the offset of + - and *",
            source="nki.isa.NkiScalar",
        )
    if is_on_chip and scalar.dtype is not INT32:
        raise IllegalInstruction(
            f"scalar_offset is {scalar!r} for a tensor on chip; legal in SBUF and PSUM: int32",
            fix="load the offset from an nl.int32 tensor",
            source=source,
        )
    if scalar.dtype is INT64 or step * (limit - 1) < _REACH_OF_INT32_BYTES:
        return ScalarIndex(scalar, step, limit)
    reach = _REACH_OF_INT32_BYTES // step
    reason = (
        f"an int32 scalar_offset reaches {reach} steps of {step} bytes, the first 4 GiB; load it "
        "from an nl.int64 tensor to reach the rest"
    )
    return ScalarIndex(scalar, step, reach, reason)


_LIMITED: Final = (ScalarIndex, VectorIndex)
"""Classes of dynamic addresses that have a limit."""


def limit_index(
    index: Index | None, access: AccessPattern, itemsize: int, nbytes: int
) -> Index | None:
    """`index` with a limit at which the last element that it can select ends within `nbytes`.

    Only indices that an instruction reads have to stay below the limit.

    Args:
        index: the dynamic address.
        access: access pattern at index 0; for an index tensor dimension 0 counts the rows.
        itemsize: bytes of an element.
        nbytes: bytes of the tensor's storage.
    """
    if not isinstance(index, _LIMITED) or index.stride_bytes < 1:
        return index
    leading_dims = 1 if isinstance(index, VectorIndex) else 0
    lengths, strides = access.shape[leading_dims:], access.strides_bytes[leading_dims:]
    row = itemsize + sum([(n - 1) * step for n, step in zip(lengths, strides, strict=True)])
    limit = (nbytes - access.offset_bytes - row) // index.stride_bytes + 1
    return replace(index, limit=limit) if 1 <= limit < index.limit else index


_OFFSET_DTYPES: Final = frozenset(d for d in BY_NAME.values() if d.is_integer) - {INT64, BOOL}


def _offsets(label: str, index: Tile) -> Tile:
    """`index`, checked to be a tensor of integers."""
    offsets = check_tensor(label, index, f"{SOURCE}.ap")
    if offsets.dtype not in _OFFSET_DTYPES:
        raise IllegalInstruction(
            f"{label} is {offsets}; legal: a tensor of integers of up to 32 bits",
            fix="copy it to an int32 or uint32 tile with nisa.tensor_copy",
            source=f"{SOURCE}.ap",
        )
    return offsets


# Partitions that share a list of indices, on every engine but the Tensor Engine (32 there).
_SNAKE_PARTITIONS = 16
_SNAKE_RANK = 2


def snake_index(tile: Tile, index: Tile, count: int | None) -> SnakeIndex:
    """The index of `tile.indirect(...)`: columns of `tile` [P, F], chosen by `index` [P, K].

    Args:
        tile: the tile whose columns are chosen.
        index: column numbers. Each group of 16 partitions shares the list in its 16 rows, which is
            read down the rows of a column, then on in the next column.
        count: columns to choose; by default all elements of `index`.

    Raises:
        IllegalInstruction: for an index of another length, or a tile of another rank.
    """
    source = f"{SOURCE}.indirect"
    offsets = check_tensor("indirect", index, source)
    columns = offsets.pattern.elements if count is None else count
    (length,) = integers("indirect", columns, source=source)
    if tile.memory is Memory.HBM or len(tile.shape) != _SNAKE_RANK or length < 1:
        raise IllegalInstruction(
            f"indirect of {tile}, num_elem={length}; legal: a tile [P, F] in SBUF or PSUM, and at "
            "least one element",
            fix="reshape the tile to two dimensions first",
            source=source,
        )
    if offsets.partitions != tile.partitions:
        raise IllegalInstruction(
            f"indirect of {tile} by {offsets}; legal: an index of {tile.partitions} partitions",
            fix="allocate the index with as many partitions as the tile",
            source=source,
        )
    return SnakeIndex(offsets, tile.shape[1], length, _SNAKE_PARTITIONS)
