"""Patterns of calls that have just repeated earlier calls (`patterns`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from trnsim.device.program_line import program_frame
from trnsim.xla.cuts.call_parts import place_of
from trnsim.xla.cuts.patterns import (
    CallPattern,
    PatternMemory,
    View,
    ViewPattern,
    Write,
    frame_line,
    picker,
    same_tensors,
)
from trnsim.xla.cuts.rules import rule_of
from trnsim.xla.cuts.values import (
    SCATTER,
    SEED,
    VIEW,
    VIEWS,
    Geometry,
    HostNumber,
    Operand,
    RecordedValue,
    TensorStorage,
)

if TYPE_CHECKING:
    from trnsim.xla.cuts.repeats import RepeatedCall

_address: Final[Any] = torch._C.TensorBase.data_ptr  # noqa: SLF001  programs may replace Tensor's
_READ_POSITIONS: Final[dict[str, tuple[int, ...]]] = {
    **dict.fromkeys((*VIEWS, "aten::empty.memory_format", "aten::empty_strided"), ()),
    "aten::zero_": (),
    "aten::fill_.Scalar": (1,),
    "aten::_copy_from": (0,),
}
"""Operators with a recording of their own: the positions of the arguments that they read."""
_WRITTEN_POSITIONS: Final = {"aten::zero_": [0], "aten::fill_.Scalar": [0], "aten::_copy_from": [1]}
"""Operator -> positions of the arguments that it writes to."""
_UNSUPPORTED_OPERATORS: Final = ("aten::_efficientzerotensor", "aten::clone", "aten::unfold")
"""Operators with a recording of their own that have no pattern."""


def pattern_of(
    name: str, calls: Sequence[RepeatedCall], parts: tuple[Any, Any, Any], memory: PatternMemory
) -> CallPattern | ViewPattern | None:
    """The pattern of a call that was recorded; None for a call that can have no pattern.

    `calls` are the calls of the tree that were recorded for the operator. `parts` are its arguments
    by position, its arguments by name, and its result.
    """
    node = calls[-1].node
    line = frame_line(*program_frame(3), None if node is None else node.place)
    builder = _PatternBuilder(CallPattern(name, line, calls[-1]), calls, memory)
    if not builder.takes(*parts):
        return None
    return builder.view_pattern() if name in VIEWS else builder.pattern


class _PatternBuilder:
    """A pattern in construction.

    Attributes:
        memory: the recording.
        calls: the calls of the tree, with their results.
        is_call: True if one of them is the operator itself, and not a view that the host reads.
        operands: the values of the tensors that it reads.
        tensors: the pattern's tensors.
        earlier_value: for each storage that is written the value before the call; None if all of
            the storage is written.
    """

    def __init__(
        self, pattern: CallPattern, calls: Sequence[RepeatedCall], memory: PatternMemory
    ) -> None:
        self.pattern, self.memory = pattern, memory
        self.calls = [(call.node, call.values) for call in calls if call.node is not None]
        helpers = () if pattern.name in VIEWS else (VIEW, SEED, SCATTER)
        own_calls = [call for call in self.calls if call[0].signature.name not in helpers]
        self.is_call = bool(own_calls)
        self.main, self.results = (own_calls or self.calls)[0]
        self.operands: list[RecordedValue] = []
        self.tensors: list[Tensor] = []
        self.storages: list[TensorStorage] = []
        self.earlier_value: dict[TensorStorage, RecordedValue | None] = {}

    def takes(self, args: Any, kwargs: Any, result: Any) -> bool:
        """Complete the pattern; False for a call that can have no pattern."""
        name, pattern, rule = self.pattern.name, self.pattern, rule_of(self.pattern.name)
        if not self.is_call or name in _UNSUPPORTED_OPERATORS or rule.is_masked or rule.statistics:
            return False
        if any(isinstance(value, Tensor) for value in kwargs.values()):
            return False
        pattern.arguments, pattern.keywords = len(args), len(kwargs)
        read_positions, new_tensors = self._take_arguments(args, kwargs), self._new_tensors(result)
        written = _WRITTEN_POSITIONS.get(
            name, [] if name in _READ_POSITIONS else [position for position, _ in rule.written]
        )
        if (
            read_positions is None
            or new_tensors is None
            or any(position >= len(args) for position in written)
        ):
            return False
        positions = [
            *read_positions,
            *[position for position in written if position not in read_positions],
        ]
        pattern.args = picker(tuple(positions))
        self.tensors = [*[args[position] for position in positions], *new_tensors]
        targets = [*range(len(positions), len(self.tensors)), *map(positions.index, written)]
        self._take_data()
        if not self._take_tensors():
            return False
        return name in VIEWS or (self._take_writes(targets) and self._take_reads())

    def _take_arguments(self, args: Any, kwargs: Any) -> list[int] | None:
        """Note numbers and constants; the positions of the tensors that the call reads."""
        positions: list[int] = []
        for position, part in self._parts(args, kwargs):
            value = args[position] if isinstance(position, int) else kwargs[position]
            operand = self.main.operands[part.number] if isinstance(part, Operand) else None
            if isinstance(value, Tensor) and value.get_device() >= 0:
                if not isinstance(operand, RecordedValue) or not isinstance(position, int):
                    return None
                self.operands.append(operand)
                positions.append(position)
            elif isinstance(operand, HostNumber):
                self.pattern.numbers += ((position, operand, isinstance(value, Tensor)),)
            elif operand is not None or _has_operands(part):
                return None
            elif isinstance(value, Tensor):
                self.pattern.constants += ((position, value.item(), True),)
            else:
                self.pattern.constants += ((position, value, False),)
        return positions

    def _parts(self, args: Any, kwargs: Any) -> list[tuple[int | str, Any]]:
        """Each argument that changes the call, by position or name, as the signature has it."""
        signature, name, rule = self.main.signature, self.pattern.name, rule_of(self.pattern.name)
        if name in _READ_POSITIONS:
            return [(position, signature.arguments[position]) for position in _READ_POSITIONS[name]]
        positions = [
            position
            for position in range(len(args))
            if rule.arguments[position] not in rule.ignored
        ]
        keywords = sorted(key for key in kwargs if key not in rule.ignored)
        parts: list[tuple[int | str, Any]] = [*zip(positions, signature.arguments, strict=False)]
        parts += zip(keywords, [part for _, part in signature.keywords], strict=True)
        if rule.is_random:  # with a generator of the host it is another call
            parts += [
                (position, None)
                for position in range(len(args))
                if rule.arguments[position] == "generator"
            ]
            parts += [(key, None) for key in kwargs if key == "generator"]
        return parts

    def _new_tensors(self, result: Any) -> list[Tensor] | None:
        """The tensors among the results that are no arguments; None where they are not known."""
        name, pattern = self.pattern.name, self.pattern
        returned = rule_of(name).returned
        if name in _WRITTEN_POSITIONS or (name not in _READ_POSITIONS and returned == (False,)):
            return []
        if isinstance(result, Tensor):
            pattern.has_result = True
            return [result]
        if not isinstance(result, tuple) or not all(returned):
            return None
        tensors = [position for position, part in enumerate(result) if isinstance(part, Tensor)]
        new_tensors = [position for position in tensors if result[position].get_device() >= 0]
        pattern.result = picker(tuple(new_tensors))
        return [result[position] for position in new_tensors]

    def _take_data(self) -> None:
        """Note the data that the calls read, and the seed."""
        values = [value for node, _ in self.calls for value in node.operands]
        for node, results in self.calls:
            if node.signature.name == SEED and isinstance(node.operands[0], RecordedValue):
                self.pattern.seeds = (node.operands[0], results[0])
        data = [
            value
            for value in values
            if isinstance(value, RecordedValue)
            and value.node is None
            and value not in self.pattern.seeds
        ]
        data += [value.source for value in data if value.source is not None]
        self.pattern.data = tuple(dict.fromkeys(data))

    def _take_tensors(self) -> bool:
        """Note the geometries and offsets of the tensors."""
        pattern, tensors = self.pattern, self.tensors
        addresses = [place_of(tensor)[0] for tensor in tensors]
        storages = [self.memory.storages.get(address) for address in addresses]
        self.storages = [storage for storage in storages if storage is not None]
        if not tensors or len(self.storages) < len(tensors):
            return False
        offsets = [
            _address(tensor) - position for tensor, position in zip(tensors, addresses, strict=True)
        ]
        pattern.offsets = tuple(offsets) if any(offsets) else ()
        pattern.check = same_tensors(tensors)
        return True

    def view_pattern(self) -> ViewPattern | None:
        """The pattern of a view; None for a view that can have no pattern."""
        value, root = self.results[0], self.main.operands[0]
        geometry = place_of(self.tensors[0])[1]
        if (
            self.main.signature.name != VIEW
            or not isinstance(root, RecordedValue)
            or self.storages[0].views.get(geometry) is not value
        ):
            return None
        offset, *_ = self.pattern.offsets or (0,)
        return ViewPattern(self.pattern, offset, root, value)

    def _take_writes(self, targets: list[int]) -> bool:
        """Note the written tensors: whole storages, or parts of them."""
        written_wholes = {
            node.operands[1]: (node.operands[0], values[0])
            for node, values in self.calls
            if node.signature.name == SCATTER
        }
        if len(targets) != len(self.results):
            return False
        for target, value in zip(targets, self.results, strict=True):
            storage = self.storages[target]
            if not storage.address:
                continue
            earlier_value, whole_value = written_wholes.get(value, (None, value))
            if storage.value is not whole_value or storage in self.earlier_value:
                return False
            part: tuple[tuple[Geometry, RecordedValue], ...] = ()
            if isinstance(earlier_value, RecordedValue):
                part, self.earlier_value[storage] = ((value.geometry, value),), earlier_value
            else:
                self.earlier_value[storage] = None
            if target >= len(self.operands) and not part:
                self.pattern.replaced += ((target, whole_value.geometry),)
            self.pattern.writes += (Write(target, whole_value, part),)
        return True

    def _earlier_value(self, storage: TensorStorage, value: RecordedValue) -> RecordedValue | None:
        """The value of a storage before the call that read `value` in it; None if not known."""
        if storage not in self.earlier_value:
            return storage.value
        earlier_value = self.earlier_value[storage]
        if earlier_value is not None:
            return earlier_value
        if value.node is None:
            return value if storage.origin is value else None
        is_view = value.node.signature.name == VIEW and value.source is None
        root = value.node.operands[0] if is_view else value
        return root if isinstance(root, RecordedValue) else None

    def _take_reads(self) -> bool:
        """Note the read tensors: whole storages, or views of them."""
        pattern, roots = self.pattern, list[RecordedValue]()
        views = [results for node, results in self.calls if node.signature.name == VIEW]
        for position, value in enumerate(self.operands):
            storage, geometry = self.storages[position], value.geometry
            earlier_value = self._earlier_value(storage, value)
            if earlier_value is None or geometry != place_of(self.tensors[position])[1]:
                return False
            if not storage.address:
                roots.append(earlier_value)
            elif earlier_value.geometry == geometry:
                roots.append(value)
            elif (value,) in views:
                pattern.new_views += (View(position, geometry, value),)
                roots.append(earlier_value)
            elif storage in self.earlier_value or storage.views.get(geometry) is value:
                pattern.views += (View(position, geometry, value),)
                roots.append(earlier_value)
            else:
                return False
        unread_writes = pattern.writes[-1:] if len(self.operands) < len(self.tensors) else ()
        for write in unread_writes:
            earlier_value = self.earlier_value[self.storages[write.tensor]]
            if earlier_value is not None:
                roots.append(earlier_value)
        pattern.roots = tuple(roots)
        return True


def _has_operands(part: Any) -> bool:
    return isinstance(part, Operand) or (isinstance(part, tuple) and any(map(_has_operands, part)))
