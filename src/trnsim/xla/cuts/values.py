"""Values of recorded operators: results of calls, views of them, and data.

Data is a value that no call of the step computes. A call keeps its operands, never a tensor, so
that a recording needs memory for its calls alone.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from hashlib import blake2b
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import torch

if TYPE_CHECKING:
    from trnsim.device.kernel_call import KernelCall

Geometry: TypeAlias = tuple[tuple[int, ...], tuple[int, ...], int, Any]
"""Shape, strides, offset of the first element and dtype of a tensor in its storage."""
Place: TypeAlias = tuple[str, int]
"""File and line of a call in the program."""

VIEW: Final = "view"
"""The name of a view of a value: its constants are the geometries of the base and the view."""
VIEWS: Final = (
    *("aten::as_strided", "aten::view", "aten::_reshape_alias"),
    *("aten::view_as_real", "aten::view_as_complex"),
)
"""Operators that make views."""
SCATTER: Final = "write to a view"
"""The name of a write of a value to a part of another value; its constants are as for `VIEW`."""
SEED: Final = "next seed"
"""The name of the seed after a call that draws random numbers."""
SEED_GEOMETRY: Final[Geometry] = ((), (), 0, torch.int64)
NO_GEOMETRY: Final[Geometry] = ((), (), 0, None)
"""The geometry of the storage that all tensors without elements share."""
COPY: Final = "copy"
"""The name of a copy, with or without a change of dtype."""
EXCHANGE: Final = "xla::"
"""The beginning of the names of collectives."""
FILLED: Final = "full"
"""The name of memory filled with a number: torch_xla fills empty tensors with 0."""

_DIGEST_BYTES: Final = 8


class UncutWarning(UserWarning):
    """A program that calls many operators and ends no step."""


@dataclass(eq=False, slots=True)
class Signature:
    """An operator with its constants; operands and numbers that are inputs are placeholders.

    Attributes:
        operator: the operator's full name ("aten::add.Tensor"), for its graph.
        name: its plain name, by which programs are compared.
        arguments: its arguments, with `Operand` for values.
        keywords: its arguments by name.
        positions: indices of the tensors among all results; () if all results are tensors.
        kernel: the call of an NKI kernel; None for an operator.
        digest: bytes that equal signatures share, in every process.
    """

    operator: str
    name: str
    arguments: tuple[Any, ...]
    keywords: tuple[tuple[str, Any], ...]
    results: tuple[Geometry, ...]
    positions: tuple[int, ...] = ()
    kernel: KernelCall | None = None
    digest: bytes = field(init=False)

    def __post_init__(self) -> None:
        shapes = [(shape, str(dtype)) for shape, _, _, dtype in self.results]
        text = repr((self.name, self.arguments, self.keywords, shapes))
        self.digest = blake2b(text.encode(), digest_size=_DIGEST_BYTES).digest()


class Signatures:
    """The signatures of a recording: equal ones are one object, and so are equal geometries.

    Attributes:
        most_kept: number of signatures after which all are forgotten.
    """

    def __init__(self, most_kept: int) -> None:
        self.most_kept = most_kept
        self._by_content: dict[Any, Signature] = {}
        self._geometries: dict[Geometry, Geometry] = {}

    def signature(
        self,
        operator: str,
        name: str,
        arguments: tuple[Any, ...],
        results: tuple[Geometry, ...],
        keywords: tuple[Any, ...] = (),
        positions: tuple[int, ...] = (),
    ) -> Signature:
        """The signature with these parts, which are the attributes of `Signature`."""
        key = (name, arguments, keywords, results)
        signature = self._by_content.get(key)
        if signature is None:
            results = tuple([self._geometries.setdefault(result, result) for result in results])
            signature = Signature(operator, name, arguments, keywords, results, positions)
            if len(self._by_content) >= self.most_kept:
                self._by_content.clear()
                self._geometries.clear()
            self._by_content[key] = signature
        return signature


@dataclass(frozen=True, slots=True)
class Operand:
    """A placeholder in an argument, for an operand of the call.

    Attributes:
        number: the operand's index among the call's operands.
    """

    number: int

    def __repr__(self) -> str:
        return f"%{self.number}"


@dataclass(slots=True, unsafe_hash=True)
class HostNumber:
    """A number of the host that is an input of the program; equal numbers share an input.

    Attributes:
        value: the number, of the latest repetition if the call is repeated.
        dtype: the dtype in which its operator reads it.
        step: the last step that read it.
    """

    value: complex
    dtype: Any
    step: int = field(default=0, compare=False, repr=False)


class RecordedValue:
    """A result of a recorded call, or data.

    Attributes:
        node: the call; None for data.
        index: its index among the call's results; 0 for data.
        geometry: shape, strides and dtype.
        source: the value that this value copies in another layout; None for any other value.
        home: the address of the storage that holds data; 0 for none.
        step: number of the last step that read this data.
        predecessor: the data of an earlier step whose place this data has taken; None for none.
        has_layouts: True for data of which there is a copy in another layout.
        event: number of the last recorded call that has this data as an operand.
        copies: the copies in other layouts of a call's result, by their geometry.
    """

    __slots__ = (
        *("geometry", "home", "index", "node", "source"),
        *("copies", "event", "has_layouts", "predecessor", "step"),
    )

    def __init__(
        self,
        geometry: Geometry,
        node: RecordedCall | None = None,
        index: int = 0,
        source: RecordedValue | None = None,
    ) -> None:
        self.geometry = geometry
        self.node = node
        self.index = index
        self.source: RecordedValue | None = source
        self.home = 0
        self.step = 0
        self.event = 0
        self.predecessor: RecordedValue | None = None
        self.has_layouts = False
        self.copies: dict[Geometry, RecordedValue] | None = None
        if source is not None and node is None:
            source.has_layouts = True

    def copy(self, geometry: Geometry) -> RecordedValue:
        """This value in another layout; equal copies of a call's result are one object."""
        source = self.source or self
        if self.node is None:
            return RecordedValue(geometry, source=source)
        copies = self.copies = self.copies or {}
        if geometry not in copies:
            copies[geometry] = RecordedValue(geometry, self.node, self.index, source)
        return copies[geometry]


class RecordedCall:
    """A recorded call.

    Attributes:
        signature: its operator and constants.
        operands: the values and numbers that it reads.
        place: its file and line in the program; None where the stack has none.
        number: its number among all calls.
    """

    __slots__ = ("number", "operands", "place", "signature")

    def __init__(
        self,
        signature: Signature,
        operands: tuple[RecordedValue | HostNumber, ...],
        place: Place | None,
        number: int,
    ) -> None:
        self.signature = signature
        self.operands = operands
        self.place = place
        self.number = number


class StorageOwner(weakref.ref[Any]):
    """A weak reference to the owner of memory.

    Attributes:
        address: the memory's address.
    """

    __slots__ = ("address",)

    address: int


class TensorStorage:
    """The memory of a tensor and of its views.

    Attributes:
        value: the value that the memory holds.
        origin: the data that it held before it was written, which the program may overwrite.
        views: values of views of the present value, by their geometry.
        holders: weak references to tensors of views, by their geometry.
        owner: a weak reference to PyTorch's storage; None if none was recorded.
    """

    __slots__ = ("address", "holders", "origin", "owner", "value", "views")

    def __init__(self, value: RecordedValue, address: int = 0) -> None:
        self.value, self.address = value, address
        self.origin: RecordedValue | None = None
        self.views: dict[Geometry, RecordedValue] = {}
        self.holders: dict[Geometry, list[weakref.ref[Any]]] = {}
        self.owner: StorageOwner | None = None

    @property
    def has_work(self) -> bool:
        """True if the value, or a view, is not computed."""
        return self.value.node is not None or any(
            view.node is not None for view in self.views.values()
        )

    def is_held(self, geometry: Geometry) -> bool:
        """True if a tensor of this view is alive."""
        return any(holder() is not None for holder in self.holders.get(geometry, ()))

    def hold(self, geometry: Geometry, tensor: Any) -> None:
        """Note a tensor of a view."""
        holder, holders = weakref.ref(tensor), self.holders.get(geometry)
        if holders is None:
            self.holders[geometry] = [holder]
        else:
            holders[:] = [*[other for other in holders if other() is not None], holder]

    def settle(self) -> None:
        """Take its values for computed; the next step reads the data that was overwritten."""
        if self.holders:
            self.holders = {
                geometry: living_holders
                for geometry, holders in self.holders.items()
                if (living_holders := [holder for holder in holders if holder() is not None])
            }
        if self.views:
            self.views = {
                geometry: as_data(view, self.address)
                for geometry, view in self.views.items()
                if geometry in self.holders
            }
        origin, self.origin = self.origin, None
        if origin is None and self.value.node is None:
            return
        if origin is not None and origin.geometry == self.value.geometry:
            self.value = origin
        else:
            self.value = as_data(self.value, self.address)


order_of: Final = attrgetter("node.number", "index")
"""The number of the call that gives a result, and its place among the call's results."""


def as_data(value: RecordedValue, home: int = 0) -> RecordedValue:
    """A value as data in the storage at an address."""
    if value.node is None:
        return value
    return data_at(value.geometry, home)


def data_at(geometry: Geometry, home: int) -> RecordedValue:
    """Data in the storage at an address."""
    data = RecordedValue(geometry)
    data.home = home
    return data
