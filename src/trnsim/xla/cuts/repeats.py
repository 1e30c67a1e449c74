"""Repeated calls: a step that makes the same calls as an earlier step shares its recorded calls.

The calls of each step are a path from the root of a tree; steps with an equal beginning share it. A
call repeats a call of the tree if its operator, constants, shapes and line are equal and so are its
operands. Equal results are results of the same call. Data (tensors that were there before the step)
and numbers need not have equal values: a new batch, or a new learning rate, is equal to the earlier
batch or rate if both steps read it in the same places. So a step that repeats another makes no new
calls, and its compiled programs are found by their calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from trnsim.xla.cuts.values import HostNumber, Place, RecordedCall, RecordedValue, Signature

if TYPE_CHECKING:
    from trnsim.xla.cuts.patterns import CallPattern, ViewPattern

Operand: TypeAlias = RecordedValue | HostNumber

MOST_KEPT: Final = 50_000
"""Maximum number of calls in the tree; a program that exceeds it begins a new tree."""
_MOST_BRANCHES: Final = 4
"""Maximum number of calls kept as successors of one call; the oldest is dropped first."""


class RepeatedCall:
    """A call in the tree.

    Attributes:
        node: the call.
        successors: the calls that followed it, the latest last.
        pattern: the pattern that recognises its repetition by the tensors of a call; None before
            its first repetition, and for calls without a pattern.
        has_repeated: True from its first repetition on.
    """

    __slots__ = ("has_repeated", "node", "pattern", "successors", "values")

    def __init__(self, node: RecordedCall | None) -> None:
        self.node = node
        results = () if node is None else enumerate(node.signature.results)
        self.values = tuple([RecordedValue(geometry, node, index) for index, geometry in results])
        self.successors: list[RepeatedCall] = []
        self.pattern: CallPattern | ViewPattern | None = None
        self.has_repeated = False


class Repeats:
    """The tree of calls, and the position of the present step in it.

    Attributes:
        step: the number of this step, from 1.
        latest_call: the latest call of this step; the root of the tree before the first.
        event: the number of the call that is being recorded.
        new_calls: number of calls that no earlier step made, over all steps.
        operator_calls: the calls of the tree for the operator that is being recorded.
        numbers: the inputs of this step that are numbers, by value and dtype.
    """

    def __init__(self, replace_data: Callable[[RecordedValue, RecordedValue], None]) -> None:
        """`replace_data(old, new)` puts `new` in the storages and the views that hold `old`."""
        self._replace_data = replace_data
        self._root = RepeatedCall(None)
        self._size = 0
        self.latest_call = self._root
        self.step = 1
        self.event = 1
        self.new_calls = 0
        self.operator_calls: list[RepeatedCall] = []
        self.numbers: dict[tuple[complex, Any], HostNumber] = {}

    def begin_step(self) -> None:
        """Begin a step, for which every result of earlier steps is data."""
        if self._size >= MOST_KEPT:
            self.forget()
        self.latest_call = self._root
        self.operator_calls.clear()
        self.step += 1
        self.numbers.clear()

    def begin_call(self) -> None:
        """Begin the recording of an operator, which may be several calls."""
        self.event += 1
        self.operator_calls.clear()

    def forget(self) -> None:
        """Forget all calls."""
        self._root, self._size = RepeatedCall(None), 0

    def number(self, value: complex, dtype: Any) -> HostNumber:
        """A number that a call reads."""
        number = self.numbers.get((value, dtype))
        return HostNumber(value, dtype) if number is None else number

    def call(
        self, signature: Signature, operands: tuple[Operand, ...], place: Place | None, number: int
    ) -> RepeatedCall:
        """The next call of this step: an equal call of the tree, else a new call."""
        previous_call = self.latest_call
        for call in reversed(previous_call.successors):
            node = call.node
            if (
                node is not None
                and node.signature is signature
                and node.place == place
                and self._are_same(operands, node.operands)
            ):
                self.latest_call = call
                self.operator_calls.append(call)
                return call
        operands = tuple(map(self._operand_of_step, operands))
        call = RepeatedCall(RecordedCall(signature, operands, place, number))
        self.new_calls += 1
        if self._size < MOST_KEPT:
            self._size += 1
            previous_call.successors.append(call)
            del previous_call.successors[:-_MOST_BRANCHES]
        self.latest_call = call
        self.operator_calls.append(call)
        return call

    def _operand_of_step(self, operand: Operand) -> Operand:
        """The number or value of this step for an operand of a new call.

        It is the step's number of equal value, or the data whose place the operand has taken.
        """
        if isinstance(operand, HostNumber):
            operand = self.numbers.setdefault((operand.value, operand.dtype), operand)
            operand.step = self.step
        elif operand.node is None:
            operand = operand.predecessor or operand
            operand.step = self.step
            if operand.source is not None:
                operand.source.step = self.step
        return operand

    def _are_same(
        self, operands: tuple[Operand, ...], earlier_operands: tuple[Operand, ...]
    ) -> bool:
        if len(operands) != len(earlier_operands):
            return False
        for operand, earlier_operand in zip(operands, earlier_operands, strict=True):
            if (
                operand is not earlier_operand
                and isinstance(earlier_operand, RecordedValue)
                and earlier_operand.node is not None
            ):
                if (
                    not isinstance(operand, RecordedValue)
                    or operand.node is not earlier_operand.node
                ):
                    return False
                if operand.index != earlier_operand.index:
                    return False
        return all(map(self.is_same, operands, earlier_operands))

    def is_same(self, operand: Operand, earlier_operand: Operand) -> bool:
        """True if an operand is the earlier step's, or can take its place, which it then does."""
        if isinstance(earlier_operand, HostNumber):
            return isinstance(operand, HostNumber) and self.is_number(
                earlier_operand, operand.value, operand.dtype
            )
        if isinstance(operand, HostNumber):
            return False
        if earlier_operand.node is not None:
            return operand.node is earlier_operand.node and operand.index == earlier_operand.index
        operand = operand.predecessor or operand
        if operand is not earlier_operand:
            return operand.node is None and self._replaces(operand, earlier_operand)
        earlier_operand.step = self.step
        if earlier_operand.source is not None:
            earlier_operand.source.step = self.step
        return True

    def is_number(self, earlier_number: HostNumber, value: complex, dtype: Any) -> bool:
        """True if a number can take the place of an earlier step's, which it then does."""
        if earlier_number.step == self.step:
            return earlier_number is self.numbers.get((value, dtype))
        if earlier_number.dtype is not dtype or (value, dtype) in self.numbers:
            return False
        earlier_number.value, earlier_number.step = value, self.step
        self.numbers[value, dtype] = earlier_number
        return True

    def _replaces(self, data: RecordedValue, earlier_data: RecordedValue) -> bool:
        """True if data can take the place of an earlier step's, which it then does.

        A storage that still holds the earlier data gets a new value.
        """
        if (
            self.step in (data.step, earlier_data.step)
            or earlier_data.event == self.event  # another operand of the same call
            or data.has_layouts
            or earlier_data.has_layouts
            or data.source is not earlier_data.source
            or data.geometry != earlier_data.geometry
        ):
            return False
        if earlier_data.source is not None:
            earlier_data.source.step = self.step
        self._replace_data(
            earlier_data, RecordedValue(earlier_data.geometry, source=earlier_data.source)
        )
        self._replace_data(data, earlier_data)
        earlier_data.step, earlier_data.predecessor, data.predecessor = (
            self.step,
            None,
            earlier_data,
        )
        return True
