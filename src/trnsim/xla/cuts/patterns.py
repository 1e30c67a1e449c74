"""Patterns of repeated calls, which recognise by a call's tensors that it repeats an earlier one.

A call is the next one of the tree (`repeats`) if it is the same operator at the same line, its
tensors have the same shapes and values, its constants are equal, and its numbers take the place of
the earlier ones. A pattern finds that without a signature, and PyTorch compares all shapes at once.
A call whose pattern does not fit is recorded as every other, so patterns decide nothing but time.
Lists of tensors, random numbers, tensors of the host and results in a part of a storage have none.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from os import sep
from pathlib import Path
from threading import get_ident
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Final, Protocol

import torch
from torch import Tensor

from trnsim.device.program_line import program_frame
from trnsim.xla.cuts.call_parts import new_results, place_of, written_tensors
from trnsim.xla.cuts.rules import RecordingRule, is_special, rule_of
from trnsim.xla.cuts.values import VIEW, HostNumber, Operand, RecordedValue, TensorStorage

if TYPE_CHECKING:
    from trnsim.xla.cuts.repeats import RepeatedCall, Repeats

_base: Final[Any] = torch._C.TensorBase  # noqa: SLF001  its methods, which programs may replace
_address: Final = _base.data_ptr
_NUMBERS: Final = frozenset({int, float, complex})
_frame_at: Final = sys._getframe  # noqa: SLF001  the documented way to a stack

_OWN_FILES: Final = str(Path(__file__).parents[2]) + sep


class PatternMemory(Protocol):
    """The part of a recording that a pattern reads and writes."""

    storages: dict[int, TensorStorage]
    pending: dict[int, TensorStorage]
    repeats: Repeats


def geometry_guard(tensors: list[Tensor]) -> Any:
    """PyTorch's comparison of tensors' types, dtypes, shapes and strides with those of these."""
    # PyTorch has no other for all at once.
    guards: Any = torch._C._dynamo.guards  # noqa: SLF001  # pyright: ignore[reportAttributeAccessIssue]
    return guards.TensorGuards(
        *tensors,
        dynamic_dims_sizes=[list(tensor.shape) for tensor in tensors],
        dynamic_dims_strides=[list(tensor.stride()) for tensor in tensors],
    )


def _number(value: Any) -> Any:
    """A number that PyTorch passes as a tensor of the host; None for another argument."""
    is_number = isinstance(value, Tensor) and value.get_device() < 0 and not value.dim()
    return value.item() if is_number else None


class FrameLine:
    """A line of the program, as an instruction of a frame that is reached through certain code.

    Attributes:
        depth: the distance from `Recorder.called` to the last of the frames of trnsim above it.
        codes: the code of each frame from there to the line's, or to the first one of the thread.
        instruction: the instruction in that frame; None for a call in a backward pass.
        thread: the thread.
    """

    __slots__ = ("codes", "depth", "instruction", "thread")

    def __init__(self, codes: Sequence[CodeType], instruction: int | None) -> None:
        own = [code.co_filename.startswith(_OWN_FILES) for code in codes]
        self.depth = [*own, False].index(False) - 1
        self.codes, self.instruction = codes[self.depth :], instruction
        self.thread = get_ident()

    def is_here(self) -> bool:
        """True if the call of `Recorder.called`, two frames above, comes from this line."""
        try:
            last = _frame_at(self.depth + 2)
        except ValueError:
            return False
        frame: FrameType | None = last
        for code in self.codes:
            if frame is None or frame.f_code is not code:
                return False
            last = frame
            frame = frame.f_back
        if self.instruction is None:
            return frame is None and get_ident() == self.thread
        return last.f_lasti == self.instruction


class Source:
    """A tensor of the device among a call's arguments.

    Attributes:
        at: its position among the arguments.
        offset_bytes: the offset of its first element in its storage.
        geometry: its geometry.
        is_view: True if it is a part of the storage.
        is_result: True if a call of the step gives its value.
        value: its value.
    """

    __slots__ = ("at", "geometry", "is_result", "is_view", "offset_bytes", "value")

    def __init__(
        self, at: int, tensor: Tensor, value: RecordedValue, storages: dict[int, TensorStorage]
    ) -> None:
        self.at, self.value = at, value
        address, self.geometry = place_of(tensor)
        self.offset_bytes = _address(tensor) - address
        self.is_view = storages[address].views.get(self.geometry) is not None
        self.is_result = value.node is not None

    def has(self, storage: TensorStorage, repeats: Repeats) -> bool:
        """True if a tensor of the same geometry in a storage has the same value."""
        value = storage.value
        if self.is_view:
            view = storage.views.get(self.geometry)
            if view is None or (view.node is None and not storage.is_held(self.geometry)):
                return False
            value = view
        if value is self.value:
            return self.is_result or repeats.is_same(value, self.value)
        return value.geometry == self.geometry and repeats.is_same(value, self.value)


class CallPattern:
    """The pattern of a call with results in new memory, or written over whole tensors.

    Attributes:
        name: the operator's full name.
        line: the line of the program.
        call: the call in the tree.
        sources: its tensors.
        numbers: of each number that is an input: its position or name, the number, and True if
            PyTorch passes it as a tensor of the host.
        constants: the same of all other arguments.
        written: the index in `sources` of each tensor that it writes to.
        results: the indices of the new tensors among the results.
    """

    def __init__(self, name: str, line: FrameLine, call: RepeatedCall) -> None:
        self.name, self.line, self.call = name, line, call
        self.sources: list[Source] = []
        self.numbers: list[tuple[int | str, HostNumber, bool]] = []
        self.constants: list[tuple[int | str, Any, bool]] = []
        self.written: list[int] = []
        self.results: list[int] = []
        self._counts = (0, 0)
        self._distinct: list[int] = []
        self._equal: list[tuple[int, int]] = []
        self._guard: Any = None

    def begin(self, args: Any, kwargs: Any, result: Any) -> None:
        """Take the geometries of all tensors, once sources and results are known."""
        self._counts = (len(args), len(kwargs))
        tensors = self.tensors(args, result)
        first = {id(tensor): index for index, tensor in reversed([*enumerate(tensors)])}
        pairs = [(index, first[id(tensor)]) for index, tensor in enumerate(tensors)]
        self._distinct = [index for index, earliest in pairs if index == earliest]
        self._equal = [pair for pair in pairs if pair[0] != pair[1]]
        self._guard = geometry_guard([tensors[index] for index in self._distinct])

    def tensors(self, args: Any, result: Any) -> list[Any]:
        """The tensors of a call: its sources and its new results."""
        tensors = [args[source.at] for source in self.sources]
        if self.results and isinstance(result, Tensor):
            return [*tensors, result]
        return tensors + [result[index] for index in self.results]

    def fits(self, memory: PatternMemory, args: Any, kwargs: Any, result: Any) -> bool:
        """True if a call repeats this one; its results are noted then."""
        if (len(args), len(kwargs)) != self._counts or not self.line.is_here():
            return False
        tensors = self.tensors(args, result)
        for at, first in self._equal:
            if tensors[at] is not tensors[first]:
                return False
        checked = [tensors[at] for at in self._distinct] if self._equal else tensors
        if not self._guard.check(*checked) or not self._has_arguments(memory, args, kwargs):
            return False
        storages: list[tuple[int, TensorStorage]] = []
        for source, tensor in zip(self.sources, tensors, strict=False):
            address = _address(tensor) - source.offset_bytes
            storage = memory.storages.get(address)
            if storage is None or not source.has(storage, memory.repeats):
                return False
            storages.append((address, storage))
        for tensor in tensors[len(storages) :]:
            address = _address(tensor)
            storage = memory.storages.get(address)
            if storage is None:
                return False
            storages.append((address, storage))
        return self._write(memory, storages)

    def _has_arguments(self, memory: PatternMemory, args: Any, kwargs: Any) -> bool:
        """True if constants are equal, and numbers take the place of the earlier ones."""
        for at, constant, is_tensor in self.constants:
            value = args[at] if type(at) is int else kwargs.get(at)
            if is_tensor:
                value = _number(value)
            if value is not constant and (type(value) is not type(constant) or value != constant):
                return False
        for at, number, is_tensor in self.numbers:
            value = args[at] if type(at) is int else kwargs.get(at)
            if is_tensor:
                value = _number(value)
            if type(value) not in _NUMBERS or is_special(value):
                return False
            if not memory.repeats.is_number(number, value, number.dtype):
                return False
        return True

    def _write(self, memory: PatternMemory, storages: list[tuple[int, TensorStorage]]) -> bool:
        """Note the results; False where one is no whole storage."""
        results = storages[len(self.sources) :]
        if self.written:
            results += [storages[at] for at in self.written]
        for (_, storage), value in zip(results, self.call.values, strict=True):
            if storage.value.geometry != value.geometry:
                return False
        pending = memory.pending
        for (address, storage), value in zip(results, self.call.values, strict=True):
            if storage.origin is None and storage.value.node is None:
                storage.origin = storage.value
            storage.value = value
            if storage.views:
                storage.views = {}
            pending.pop(address, None)
            pending[address] = storage
        return True


class ViewPattern(CallPattern):
    """The pattern of a view that is a call of a program."""

    def __init__(self, name: str, line: FrameLine, call: RepeatedCall, result: Tensor) -> None:
        super().__init__(name, line, call)
        address, self._geometry = place_of(result)
        self._offset_bytes = _address(result) - address
        self._guard = geometry_guard([result])

    def fits(self, memory: PatternMemory, args: Any, kwargs: Any, result: Any) -> bool:
        """True if a view repeats this one; it is noted then."""
        del args, kwargs
        if not self.line.is_here() or not self._guard.check(result):
            return False
        address = _address(result) - self._offset_bytes
        storage = memory.storages.get(address)
        if storage is None or self.call.node is None:
            return False
        view = storage.views.get(self._geometry)
        if view is not None and view.node is not None:
            return False
        whole, whole_of_call = storage.value, self.call.node.operands[0]
        if whole.geometry != self.call.node.signature.arguments[0]:
            return False
        if not memory.repeats.is_same(whole, whole_of_call):
            return False
        storage.views[self._geometry] = self.call.values[0]
        memory.pending.setdefault(address, storage)
        storage.hold(self._geometry, result)
        return True


def pattern_of(
    call: RepeatedCall,
    name: str,
    parts: tuple[Any, Any, Any],
    memory: PatternMemory,
    *,
    is_view: bool,
) -> CallPattern | None:
    """The pattern of a call that was recorded; None for one that has none.

    `parts` are its arguments by position and by name, and its result.
    """
    args, kwargs, result = parts
    line = FrameLine(*program_frame(2))
    if is_view:
        is_call = call.node is not None and call.node.signature.name == VIEW
        return ViewPattern(name, line, call, result) if is_call else None
    rule = rule_of(name)
    if rule.is_random or rule.is_masked or rule.statistics or not rule.returned:
        return None
    pattern = CallPattern(name, line, call)
    is_whole = _add_arguments(pattern, rule, args, kwargs, memory.storages)
    if not is_whole or not _add_results(pattern, rule, args, kwargs, result):
        return None
    if not _are_whole(pattern, pattern.tensors(args, result), memory.storages):
        return None
    pattern.begin(args, kwargs, result)
    return pattern


def _are_whole(
    pattern: CallPattern, tensors: list[Any], storages: dict[int, TensorStorage]
) -> bool:
    """True if the results of a call are what their storages hold."""
    results = [*tensors[len(pattern.sources) :], *[tensors[at] for at in pattern.written]]
    values = pattern.call.values
    if not results or len(results) != len(values) or not all(map(_address, tensors)):
        return False
    holders = [storages.get(_address(tensor)) for tensor in results]
    return all(
        storage is not None and storage.value is value
        for storage, value in zip(holders, values, strict=True)
    )


def _add_results(
    pattern: CallPattern, rule: RecordingRule, args: Any, kwargs: Any, result: Any
) -> bool:
    """Add the results to a pattern; False where it cannot have them."""
    read = [source.at for source in pattern.sources]
    if any(place not in read for place, _ in rule.written):
        return False
    pattern.written = [read.index(place) for place, _ in rule.written]
    if isinstance(result, Tensor):
        pattern.results = [0] if rule.returned[0] else []
    elif all(rule.returned) and isinstance(result, tuple):
        pattern.results = [at for at, part in enumerate(result) if isinstance(part, Tensor)]
    else:
        return False
    new = pattern.tensors(args, result)[len(read) :]
    return len(new) == len(new_results(rule, result)) and all(
        tensor.get_device() >= 0 for tensor in (*new, *written_tensors(rule, args, kwargs))
    )


def _add_arguments(
    pattern: CallPattern,
    rule: RecordingRule,
    args: Any,
    kwargs: Any,
    storages: dict[int, TensorStorage],
) -> bool:
    """Add the arguments to a pattern; False where it cannot have them."""
    node = pattern.call.node
    if node is None or len(args) > len(rule.arguments):
        return False
    read = [at for at in range(len(args)) if rule.arguments[at] not in rule.ignored]
    named = sorted(key for key in kwargs if key not in rule.ignored)
    if any(isinstance(value, Tensor) for value in kwargs.values()):
        return False
    parts = zip(read, node.signature.arguments, strict=False)
    keywords = zip(named, [part for _, part in node.signature.keywords], strict=True)
    for at, part in (*parts, *keywords):
        value = args[at] if isinstance(at, int) else kwargs[at]
        operand = node.operands[part.number] if isinstance(part, Operand) else None
        if isinstance(value, Tensor) and value.get_device() >= 0:
            if not isinstance(operand, RecordedValue) or place_of(value)[0] not in storages:
                return False
            pattern.sources.append(Source(at, value, operand, storages))
        elif isinstance(operand, HostNumber):
            pattern.numbers.append((at, operand, isinstance(value, Tensor)))
        elif operand is not None or _has_operands(part):
            return False
        elif isinstance(value, Tensor):
            pattern.constants.append((at, value.item(), True))
        else:
            pattern.constants.append((at, value, False))
    return True


def _has_operands(part: Any) -> bool:
    return isinstance(part, Operand) or (isinstance(part, tuple) and any(map(_has_operands, part)))
