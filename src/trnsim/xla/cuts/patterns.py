"""Patterns of repeated calls, which recognise a repetition by the tensors of a call.

A call repeats the next call of the tree (`repeats`) if operator and line are the same, its tensors
have the same shapes and values, its constants are equal, and its numbers can take the place of the
earlier call's numbers. A pattern tests that without a signature: PyTorch compares all shapes at
once, and equal values are the same object. It then records the values that the earlier call had
written. A call whose pattern does not fit is recorded as any other: patterns only save time. Calls
with lists of tensors or tensors of the host have no pattern.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from operator import itemgetter
from os import sep
from pathlib import Path
from threading import get_ident
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from trnsim.xla.cuts.lines import Lines
from trnsim.xla.cuts.rules import is_special
from trnsim.xla.cuts.values import Geometry, HostNumber, Place, RecordedValue, TensorStorage

if TYPE_CHECKING:
    from trnsim.xla.cuts.repeats import RepeatedCall, Repeats

_base: Final[Any] = torch._C.TensorBase  # noqa: SLF001  its methods, which programs may replace
_address: Final = _base.data_ptr
_NUMBERS: Final = frozenset({int, float, complex})
frame_at: Final = sys._getframe  # noqa: SLF001  the documented way to a stack

_OWN_FILES: Final = str(Path(__file__).parents[2]) + sep
MARKED_DISTANCE: Final = 2
"""Number of frames from `Recorder.note_call` to the caller of the only frame of trnsim above it."""
_MOST_PLACES: Final = 10_000
"""Maximum number of places that lines share; the least recently used is dropped first."""
_SUSPENDED: Final = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR
"""Flags of code whose frame goes on at another time, within other frames."""


class PatternMemory(Protocol):
    """The part of a recording that a pattern reads and writes."""

    storages: dict[int, TensorStorage]
    pending: dict[int, TensorStorage]
    repeats: Repeats
    lines: Lines
    seed: RecordedValue


def geometry_guard(tensors: Sequence[Tensor]) -> Callable[..., bool]:
    """PyTorch's comparison of tensors' types, dtypes, shapes and strides with `tensors`.

    Patterns of equal tensors share it: what was read a moment ago is in the processor's cache.
    """
    key = tuple(
        [(tensor.dtype, tensor.shape, tensor.stride(), tensor.requires_grad) for tensor in tensors]
    )
    check = _guards.get(key)
    if check is None or not check(*tensors):
        if len(_guards) >= _MOST_GUARDS:
            _guards.clear()
        check = _guards[key] = _new_guard(tensors)
    return check


def _new_guard(tensors: Sequence[Tensor]) -> Callable[..., bool]:
    # PyTorch has no other for all at once.
    guards: Any = torch._C._dynamo.guards  # noqa: SLF001  # pyright: ignore[reportAttributeAccessIssue]
    tensor_guards = guards.TensorGuards(
        *tensors,
        dynamic_dims_sizes=[list(tensor.shape) for tensor in tensors],
        dynamic_dims_strides=[list(tensor.stride()) for tensor in tensors],
    )
    check: Callable[..., bool] = tensor_guards.check
    return check


_MOST_GUARDS: Final = 10_000
_guards: Final[dict[Any, Callable[..., bool]]] = {}
"""The latest comparison for the dtypes, shapes and strides of tensors."""


def same_tensors(tensors: Sequence[Tensor]) -> Callable[..., bool]:
    """`geometry_guard` of tensors; two of them that are one object must be one object later."""
    first_positions = {id(tensor): position for position, tensor in reversed([*enumerate(tensors)])}
    earliest_positions = [first_positions[id(tensor)] for tensor in tensors]
    distinct_positions = sorted({*earliest_positions})
    check, pick = (
        geometry_guard([tensors[position] for position in distinct_positions]),
        picker(tuple(distinct_positions)),
    )
    if len(distinct_positions) == len(tensors):
        return check
    repeated_positions = [
        (position, earliest_position)
        for position, earliest_position in enumerate(earliest_positions)
        if position != earliest_position
    ]

    def check_same(*other_tensors: Tensor) -> bool:
        for position, earliest_position in repeated_positions:
            if other_tensors[position] is not other_tensors[earliest_position]:
                return False
        return check(*pick(other_tensors))

    return check_same


@cache
def picker(positions: tuple[int, ...]) -> Callable[[Any], Any]:
    """A function that takes the parts of a tuple at some positions, as a tuple."""
    first_positions = positions[0] if positions else 0
    if positions == (*range(first_positions, first_positions + len(positions)),):
        return itemgetter(slice(first_positions, first_positions + len(positions)))
    return itemgetter(*positions)


def _number(value: Any) -> Any:
    """A number that PyTorch passes as a tensor of the host; None for another argument."""
    is_number = isinstance(value, Tensor) and value.get_device() < 0 and not value.dim()
    return value.item() if is_number else None


class FrameLine:
    """A line of the program, as an instruction of a frame that is reached through certain code.

    As long as a function of a framework runs, the frames around it and their instructions stay. So
    its frame is marked when it has been reached from this line, and not followed outwards again.
    The mark is its `f_trace`, which goes with the frame, and which only a debugger reads.

    Attributes:
        depth: the distance from `Recorder.note_call` to the last of the frames of trnsim above it.
        codes: the code of each frame from there to the line's, or to the first one of the thread.
        instruction: the instruction in that frame; None for a call in a backward pass.
        place: file and line of the program; None in a backward pass.
        thread: the thread.
        is_marking: True if the caller of the only frame of trnsim is a framework's function.
    """

    __slots__ = ("__weakref__", "codes", "depth", "instruction", "is_marking", "place", "thread")

    def __init__(
        self,
        depth: int,
        codes: tuple[CodeType, ...],
        instruction: int | None,
        place: Place | None,
        thread: int,
    ) -> None:
        self.depth, self.codes, self.instruction, self.thread = depth, codes, instruction, thread
        self.place = None if instruction is None else place
        functions = codes[1:] if instruction is None else codes[1:-1]
        self.is_marking = depth == 1 and bool(functions) and not functions[0].co_flags & _SUSPENDED

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Do nothing, where a debugger takes the mark for its own function."""

    def is_here(self) -> bool:
        """True if the call of `Recorder.note_call`, the frame above, comes from this line."""
        try:
            last_frame = frame_at(self.depth + 1)
        except ValueError:
            return False
        frame: FrameType | None = last_frame
        for code in self.codes:
            if frame is None or frame.f_code is not code:
                return False
            last_frame = frame
            frame = frame.f_back
        if self.instruction is None:
            is_found = frame is None and get_ident() == self.thread
        else:
            is_found = last_frame.f_lasti == self.instruction
        if is_found and self.is_marking:
            self._mark(frame_at(MARKED_DISTANCE + 1))
        return is_found

    def _mark(self, frame: FrameType) -> None:
        if frame.f_trace is None and sys.gettrace() is None:
            frame.f_trace = self


_frame_lines: Final[WeakValueDictionary[tuple[Any, ...], FrameLine]] = WeakValueDictionary()
"""The lines of patterns, by the identity of their code, their instruction and thread."""


def frame_line(
    codes: Sequence[CodeType], instruction: int | None, place: Place | None
) -> FrameLine:
    """The line of a call by the frames from `Recorder.note_call` on; its patterns share it."""
    are_own = [code.co_filename.startswith(_OWN_FILES) for code in codes]
    depth = [*are_own, False].index(False) - 1
    thread = get_ident()
    key = (depth, tuple(map(id, codes[depth:])), instruction, thread)
    line = _frame_lines.get(key)
    if line is None:
        line = FrameLine(depth, tuple(codes[depth:]), instruction, _shared(place), thread)
        _frame_lines[key] = line
    return line


@lru_cache(maxsize=_MOST_PLACES)
def _shared(place: Place | None) -> Place | None:
    """The place that `FrameLine`s of equal places share, so that it is compared by its identity."""
    return place


class View(NamedTuple):
    """A view that a call reads.

    Attributes:
        tensor: the index of its tensor among the pattern's.
    """

    tensor: int
    geometry: Geometry
    value: RecordedValue


class Write(NamedTuple):
    """A new value of a storage.

    Attributes:
        tensor: the index of the tensor among the pattern's.
        value: the value of the whole storage.
        part: geometry and value of the part that was written; () for the whole.
    """

    tensor: int
    value: RecordedValue
    part: tuple[tuple[Geometry, RecordedValue], ...] = ()


class CallPattern:
    """The pattern of a call.

    Attributes:
        name: the operator's full name.
        last: the last call of the tree for the operator.
        arguments: the count of its arguments by position.
        keywords: the count of its arguments by name.
        args: picks its tensors from its arguments by position.
        result: picks its tensors from its result; None for a result with none, or that is a tensor.
        has_result: True if its result is a tensor.
        check: true of tensors with the geometries of its tensors.
        offsets: the offset of each tensor in its storage, in bytes; () if all are 0.
        roots: the values of the storages of the tensors that it reads; these tensors come first.
        new_views: the views that it reads and that are recorded as calls with it.
        numbers: for each number that is an input its position or name, the number, and True if
            PyTorch passes it as a tensor of the host.
        constants: for each other argument its position or name, its value, and True if PyTorch
            passes it as a tensor of the host.
        replaced: for each tensor whose earlier value it does not read, its index among the tensors
            and the geometry of its storage.
        seeds: the seed that it reads, and the next seed; () if it draws no numbers.
    """

    __slots__ = (
        *("name", "arguments", "keywords", "line", "args", "has_result", "result", "check"),
        *("offsets", "constants", "numbers", "replaced", "roots", "data", "views", "new_views"),
        *("seeds", "writes", "last"),
    )

    def __init__(self, name: str, line: FrameLine, last: RepeatedCall) -> None:
        self.name, self.line, self.last = name, line, last
        self.arguments = self.keywords = 0
        self.args = picker(())
        self.result: Callable[[Any], Any] | None = None
        self.has_result = False
        self.check: Callable[..., bool]
        self.offsets: tuple[int, ...] = ()
        self.roots: tuple[RecordedValue, ...] = ()
        self.data: tuple[RecordedValue, ...] = ()
        self.views: tuple[View, ...] = ()
        self.new_views: tuple[View, ...] = ()
        self.numbers: tuple[tuple[int | str, HostNumber, bool], ...] = ()
        self.constants: tuple[tuple[int | str, Any, bool], ...] = ()
        self.replaced: tuple[tuple[int, Geometry], ...] = ()
        self.writes: tuple[Write, ...] = ()
        self.seeds: tuple[RecordedValue, ...] = ()

    def fits(self, memory: PatternMemory, args: Any, kwargs: Any, result: Any) -> bool:
        """True if a call repeats the pattern's call; its changes are noted then."""
        if len(args) != self.arguments or len(kwargs) != self.keywords:
            return False
        storages = self._storages(memory.storages, args, result)
        if storages is None:
            return False
        if self.constants and not self._has_constants(args, kwargs):
            return False
        if self.numbers and not self._has_numbers(memory.repeats, args, kwargs):
            return False
        if not self._reads(memory, storages):
            return False
        pending = memory.pending
        for tensor, value, part in self.writes:
            storage = storages[tensor]
            earlier = storage.value
            if earlier.node is None:  # else it is among the pending ones
                if storage.origin is None:
                    storage.origin = earlier
                pending[storage.address] = storage
            storage.value = value
            if part or storage.views:
                storage.views = dict(part)
        return True

    def _storages(
        self, storages_by_address: dict[int, TensorStorage], args: Any, result: Any
    ) -> list[TensorStorage] | None:
        """The storages of a call's tensors; None for another geometry, or without a storage."""
        tensors = self.args(args)
        if self.has_result:
            tensors = (*tensors, result)
        elif self.result is not None:
            tensors += self.result(result)
        if not self.check(*tensors):
            return None
        storages: list[TensorStorage] = []
        offsets = self.offsets
        for position, tensor in enumerate(tensors):
            address = _address(tensor)
            storage = storages_by_address.get(address - offsets[position] if offsets else address)
            if storage is None:
                return None
            storages.append(storage)
        return storages

    def _has_constants(self, args: Any, kwargs: Any) -> bool:
        """True if constants are equal."""
        for position, constant, is_tensor in self.constants:
            value = args[position] if type(position) is int else kwargs.get(position)
            if is_tensor:
                value = _number(value)
            if value is not constant and (type(value) is not type(constant) or value != constant):
                return False
        return True

    def _has_numbers(self, repeats: Repeats, args: Any, kwargs: Any) -> bool:
        """True if numbers take the place of the earlier numbers."""
        for position, number, is_tensor in self.numbers:
            value = args[position] if type(position) is int else kwargs.get(position)
            if is_tensor:
                value = _number(value)
            if type(value) not in _NUMBERS:
                return False
            if number.step == repeats.step and number.value == value:
                continue
            if is_special(value) or not repeats.is_number(number, value, number.dtype):
                return False
        return True

    def _reads(self, memory: PatternMemory, storages: list[Any]) -> bool:
        """True if a call reads the values of the pattern's call, or values in their place."""
        for tensor, geometry in self.replaced:
            if storages[tensor].value.geometry != geometry:
                return False
        repeats = memory.repeats
        for position, root in enumerate(self.roots):
            value = storages[position].value
            if value is not root and (
                value.geometry != root.geometry or not repeats.is_same(value, root)
            ):
                return False
        if self.data:
            step = repeats.step
            for data in self.data:
                data.step = step
        if self.views or self.new_views or self.seeds:
            return self._has_views(memory, storages)
        return True

    def _has_views(self, memory: PatternMemory, storages: list[Any]) -> bool:
        """True if a call reads the same views and seed; views that were new are made anew."""
        repeats = memory.repeats
        for tensor, geometry, view in self.views:
            storage = storages[tensor]
            value = storage.views.get(geometry)
            if value is view and value.node is not None:
                continue
            if value is None or (value.node is None and not storage.is_held(geometry)):
                return False
            if not repeats.is_same(value, view):
                return False
        for tensor, geometry, _ in self.new_views:
            storage = storages[tensor]
            value = storage.views.get(geometry)
            if value is not None and (value.node is not None or storage.is_held(geometry)):
                return False
        if self.seeds:
            if not repeats.is_same(memory.seed, self.seeds[0]):
                return False
            memory.seed = self.seeds[1]
        for tensor, geometry, view in self.new_views:
            storages[tensor].views[geometry] = view
            memory.pending.setdefault(storages[tensor].address, storages[tensor])
        return True


class ViewPattern:
    """The pattern of an operator that makes a view, whose value lives as long as its tensor.

    Attributes:
        name: the operator's full name.
        last: the call of the view.
        check: true of a tensor with the geometry of the view.
        offset: the offset of the view in its storage, in bytes.
        root: the value of the storage.
        view: the value of the view.
    """

    __slots__ = ("check", "last", "line", "name", "offset", "root", "view")

    def __init__(
        self, pattern: CallPattern, offset: int, root: RecordedValue, view: RecordedValue
    ) -> None:
        """`pattern` has the operator, its line and the geometry of its tensor."""
        self.name, self.line, self.last = pattern.name, pattern.line, pattern.last
        self.check, self.offset, self.root, self.view = pattern.check, offset, root, view

    def fits(self, memory: PatternMemory, args: Any, kwargs: Any, result: Any) -> bool:
        """True if a view repeats the pattern's view; it is noted then."""
        del args, kwargs
        if not self.check(result):
            return False
        storage = memory.storages.get(_address(result) - self.offset)
        if storage is None:
            return False
        root, view = self.root, self.view
        value, views = storage.value, storage.views
        if views:
            present_view = views.get(view.geometry)
            if present_view is not None and present_view.node is not None:
                return False
        if value is not root or value.node is None:
            if value.geometry != root.geometry or not memory.repeats.is_same(value, root):
                return False
            memory.pending.setdefault(storage.address, storage)
        views[view.geometry] = view
        storage.hold(view.geometry, result)
        return True
