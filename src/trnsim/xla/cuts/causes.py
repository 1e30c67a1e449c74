"""Causes of recompilations: the first thing that differs from the nearest earlier program.

The nearest program has the most calls in common, by operator and line; of equally near programs
the latest is taken. Both programs are compared in the order of their calls, so the first difference
causes the others: a shape comes before the shapes that follow from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from trnsim.formatting import counted
from trnsim.torch import pytorch
from trnsim.xla.cuts.programs import CutProgram, Reference
from trnsim.xla.cuts.values import (
    FILLED,
    SCATTER,
    SEED,
    VIEW,
    Geometry,
    HostNumber,
    Operand,
    Place,
    RecordedCall,
    Signature,
)

_MOST_COMPARED: Final = 32
"""Number of the latest earlier programs that are compared."""
_MOST_SKIPPED: Final = 64
"""Maximum number of calls added or removed at one place."""


@dataclass(frozen=True, slots=True)
class Cause:
    """The first difference of a program from the nearest earlier program.

    Attributes:
        kind: the kind: "shape", "dtype", "index", "view", "constant", "number", "equal numbers",
            "growth", "seed", "call", "result", "read" or "input".
        text: the change in words.
        place: the line of the call that differs; None where it has none.
    """

    kind: str
    text: str
    place: Place | None


def cause_of(program: CutProgram, earlier_programs: Sequence[CutProgram]) -> Cause | None:
    """The first difference from the nearest of the earlier programs; None if there is none."""
    calls = Counter(_keys(program))
    nearest, most_likeness = None, -1.0
    for candidate in earlier_programs[-_MOST_COMPARED:]:
        shared_count = (calls & Counter(_keys(candidate))).total()
        likeness = shared_count / max(len(program.nodes), len(candidate.nodes), 1)
        if likeness >= most_likeness:
            nearest, most_likeness = candidate, likeness
    if nearest is None:
        return None
    return _difference(_Calls(nearest), _Calls(program))


def _keys(program: CutProgram) -> list[tuple[str, Place | None]]:
    return [(node.signature.name, node.place) for node in program.nodes]


class _Calls:
    """A program's calls in the order in which they were made."""

    def __init__(self, program: CutProgram) -> None:
        self.program = program
        order = sorted(
            range(len(program.nodes)), key=lambda position: program.nodes[position].number
        )
        self.nodes = [program.nodes[position] for position in order]
        self.operands = [program.operands[position] for position in order]
        self._places = {call: position for position, call in enumerate(order)}

    @cached_property
    def _inputs(self) -> dict[int, int]:
        """For each input, by its index, its position in the order of first use."""
        indices = [
            reference.index for row in self.operands for reference in row if reference.call < 0
        ]
        return {index: position for position, index in enumerate(dict.fromkeys(indices))}

    def references(self, position: int) -> tuple[tuple[int, int], ...]:
        """For each operand of a call the position of the call that gives it, and its index there.

        Positions are in the order of the calls, which does not depend on the program's results. An
        input has -1 and its position in the order of first use.
        """
        return tuple(
            (-1, self._inputs[operand.index])
            if operand.call < 0
            else (self._places[operand.call], operand.index)
            for operand in self.operands[position]
        )

    def outputs(self) -> list[tuple[int, int]]:
        """The results, as `references`."""
        return [(self._places[output.call], output.index) for output in self.program.outputs]

    def input_of(self, reference: Reference) -> Geometry | HostNumber | None:
        """The input that an operand is; None for the result of a call."""
        return self.program.inputs[reference.index] if reference.call < 0 else None

    def shapes(self, position: int) -> list[Any]:
        """Shape and dtype of the operands of a call; None for numbers."""
        sources = [self.program.source_of(operand) for operand in self.operands[position]]
        return [
            None if isinstance(source, HostNumber) else (tuple(source[0]), str(source[3]))
            for source in sources
        ]


def _difference(old_calls: _Calls, new_calls: _Calls) -> Cause:
    """The first difference between two programs."""
    for position in range(min(len(old_calls.nodes), len(new_calls.nodes))):
        cause = _call_difference(old_calls, new_calls, position)
        if cause is not None:
            return cause
    if len(new_calls.nodes) > len(old_calls.nodes):
        return _added_calls(old_calls, new_calls, len(old_calls.nodes))
    if len(old_calls.nodes) > len(new_calls.nodes):
        old_node = old_calls.nodes[len(new_calls.nodes)]
        return Cause("call", f"{_name(old_node)} is not called any more", old_node.place)
    return _result_difference(old_calls, new_calls)


def _call_difference(old_calls: _Calls, new_calls: _Calls, position: int) -> Cause | None:
    """The difference between two calls at the same position; None where they are equal."""
    old_node, node = old_calls.nodes[position], new_calls.nodes[position]
    if old_node.signature.name != node.signature.name:
        return _operator_difference(old_calls, new_calls, position)
    if old_calls.shapes(position) != new_calls.shapes(position):
        return _shape_difference(old_calls, new_calls, position)
    if old_node.signature.digest != node.signature.digest:
        return _constant_difference(old_node, node)
    return (
        _operand_difference(new_calls, position)
        if old_calls.references(position) != new_calls.references(position)
        else None
    )


def _added_calls(old_calls: _Calls, new_calls: _Calls, position: int) -> Cause:
    """The cause where a program has calls after the last one of the earlier program."""
    node, count = new_calls.nodes[position], len(new_calls.nodes) - position
    lines = {(call.signature.name, call.place) for call in old_calls.nodes}
    if all((call.signature.name, call.place) in lines for call in new_calls.nodes[position:]):
        return _growth_cause(node, count)
    return Cause("call", f"{_name(node)} is called, and was not", node.place)


def _growth_cause(node: RecordedCall, count: int) -> Cause:
    return Cause(
        "growth",
        f"{counted(count, 'call')} more than before, from {_name(node)} on: what it reads was not "
        "computed at a step's end, and is computed again",
        node.place,
    )


def _operator_difference(old_calls: _Calls, new_calls: _Calls, position: int) -> Cause:
    """The cause where a call is replaced, added or removed."""
    old_node, node = old_calls.nodes[position], new_calls.nodes[position]
    if SEED in (node.signature.name, old_node.signature.name):
        return Cause(
            "seed",
            "random numbers were drawn since the last end of a step: the program computes the "
            "seed, too",
            node.place,
        )
    names_old = [
        call.signature.name for call in old_calls.nodes[position : position + _MOST_SKIPPED]
    ]
    names_new = [
        call.signature.name for call in new_calls.nodes[position : position + _MOST_SKIPPED]
    ]
    added_count = _skipped_calls(names_new, names_old)
    removed_count = _skipped_calls(names_old, names_new)
    if added_count is not None and (removed_count is None or added_count <= removed_count):
        lines = {(call.signature.name, call.place) for call in old_calls.nodes}
        added_nodes = new_calls.nodes[position : position + added_count]
        if all((call.signature.name, call.place) in lines for call in added_nodes):
            return _growth_cause(node, len(new_calls.nodes) - len(old_calls.nodes))
        return Cause("call", f"{_name(node)} is called, and was not", node.place)
    if removed_count is not None:
        return Cause("call", f"{_name(old_node)} is not called any more", old_node.place)
    return Cause("call", f"{_name(node)} is called in place of {_name(old_node)}", node.place)


def _skipped_calls(longer: list[str], shorter: list[str]) -> int | None:
    """The fewest names to drop from the head of `longer` for it to begin as `shorter`, or None."""
    for skip in range(1, len(longer)):
        remaining_names = longer[skip:]
        if remaining_names[: len(shorter)] == shorter[: len(remaining_names)]:
            return skip
    return None


def _shape_difference(old_calls: _Calls, new_calls: _Calls, position: int) -> Cause:
    """The cause where an operand has another shape or dtype."""
    node = new_calls.nodes[position]
    pairs = zip(
        old_calls.shapes(position),
        new_calls.shapes(position),
        new_calls.operands[position],
        strict=False,
    )
    for old_form, new_form, reference in pairs:
        if old_form == new_form:
            continue
        if old_form is None or new_form is None:
            return _constant_number_cause(node)
        noun = "an input" if reference.call < 0 else "an operand"
        (old_shape, old_dtype), (shape, dtype) = old_form, new_form
        if old_shape != shape:
            text = f"{noun} of {_name(node)} was {list(old_shape)} and is {list(shape)}"
            return Cause("shape", text, node.place)
        text = f"{noun} of {_name(node)} was {_short_text(old_dtype)} and is {_short_text(dtype)}"
        return Cause("dtype", text, node.place)
    return _constant_number_cause(node)


def _constant_number_cause(node: RecordedCall) -> Cause:
    return Cause(
        "number",
        f"a number of {_name(node)} is 0 or 1, which are constants, where another was an input, "
        "or the reverse",
        node.place,
    )


def _constant_difference(old_node: RecordedCall, node: RecordedCall) -> Cause:
    """The cause where an argument or a result differs."""
    old_signature, new_signature = old_node.signature, node.signature
    if new_signature.name in (VIEW, SCATTER):
        return _view_difference(old_node, node)
    old_arguments, new_arguments = argument_table(old_signature), argument_table(new_signature)
    for name in dict.fromkeys((*old_arguments, *new_arguments)):
        old_value, new_value = old_arguments.get(name), new_arguments.get(name)
        if repr(old_value) == repr(new_value):
            continue
        if isinstance(old_value, Operand) or isinstance(new_value, Operand):
            return _constant_number_cause(node)
        kind = "dtype" if "dtype" in name else "constant"
        if name == "size" and new_signature.name == FILLED:
            kind = "shape"
        change = f"was {_short_text(old_value)} and is {_short_text(new_value)}"
        text = f"{name} of {_name(node)} {change}"
        return Cause(kind, text, node.place)
    old_types, new_types = (
        _shapes_and_dtypes(old_signature.results),
        _shapes_and_dtypes(new_signature.results),
    )
    kind = "dtype" if old_types[0] == new_types[0] else "shape"
    place = 1 if kind == "dtype" else 0
    text = (
        f"the result of {_name(node)} was {_short_text(old_types[place])} and is "
        f"{_short_text(new_types[place])}"
    )
    return Cause(kind, text, node.place)


def argument_table(signature: Signature) -> dict[str, Any]:
    """The arguments of a call by name, with defaults where the program leaves them out."""
    operator = pytorch.overload(signature.operator) if "::" in signature.operator else None
    schema: Any = getattr(operator, "_schema", None)
    parameters = schema.arguments if schema is not None else ()
    table = {p.name: p.default_value for p in parameters if p.has_default_value()}
    names = [parameter.name for parameter in parameters]
    for number, value in enumerate(signature.arguments):
        table[names[number] if number < len(names) else f"argument {number}"] = value
    return table | dict(signature.keywords)


def _shapes_and_dtypes(results: tuple[Geometry, ...]) -> tuple[Any, Any]:
    return ([list(geometry[0]) for geometry in results], [str(geometry[3]) for geometry in results])


def _view_difference(old_node: RecordedCall, node: RecordedCall) -> Cause:
    """The cause where an index or a slice differs."""
    (base, old_view), (_, new_view) = (
        (call.signature.arguments[0], call.signature.arguments[1]) for call in (old_node, node)
    )
    if old_view[:2] == new_view[:2]:
        new_start, old_start = (_coordinates(view[2], base) for view in (new_view, old_view))
        text = (
            f"an index: a part of {list(base[0])} begins at {new_start}, and began at {old_start}"
        )
        return Cause("index", text, node.place)
    text = f"a view of {list(base[0])} was {list(old_view[0])} and is {list(new_view[0])}"
    return Cause("view" if 0 in new_view[1] else "index", text, node.place)


def _coordinates(offset: int, base: Geometry) -> list[int]:
    """The indices of an element, by the strides of a tensor."""
    shape, strides, base_offset, _ = base
    remaining_offset, indices = offset - base_offset, dict[int, int]()
    for dim in sorted(range(len(shape)), key=lambda number: -strides[number]):
        indices[dim], remaining_offset = (
            divmod(remaining_offset, strides[dim]) if strides[dim] else (0, remaining_offset)
        )
    return [indices[dim] for dim in range(len(shape))]


def _operand_difference(new_calls: _Calls, position: int) -> Cause:
    """The cause where the same call reads another value."""
    node = new_calls.nodes[position]
    for reference in new_calls.operands[position]:
        source = new_calls.input_of(reference)
        if isinstance(source, HostNumber):
            return Cause(
                "equal numbers",
                f"a number of {_name(node)} is {source.value}: equal numbers share an input, and "
                "others do not",
                node.place,
            )
    return Cause("input", f"{_name(node)} reads other values than before", node.place)


def _result_difference(old_calls: _Calls, new_calls: _Calls) -> Cause:
    """The cause where the same calls have other results."""
    old_outputs, new_outputs = old_calls.outputs(), new_calls.outputs()
    for number, _ in new_outputs:
        if number not in dict(old_outputs):
            node = new_calls.nodes[number]
            text = f"the result of {_name(node)} is kept: a tensor of it is alive, and was not"
            return Cause("result", text, node.place)
    for number, _ in old_outputs:
        if number not in dict(new_outputs):
            node = old_calls.nodes[number]
            text = f"the result of {_name(node)} is not kept: no tensor of it is alive"
            return Cause("result", text, node.place)
    place = new_calls.nodes[-1].place if new_calls.nodes else None
    if old_calls.program.is_read != new_calls.program.is_read:
        change = "goes to the host and stays lazy" if new_calls.program.is_read else "is kept"
        return Cause("read", f"the result {change}: that is another program", place)
    if old_calls.program.donated != new_calls.program.donated:
        return Cause("result", "a result is written over an input, or no longer is", place)
    return Cause("result", "the results are in another order", place)


def _name(node: RecordedCall) -> str:
    kernel = node.signature.kernel
    return node.signature.name if kernel is None else f"the kernel {kernel.operation}"


def _short_text(value: Any) -> str:
    return str(value).replace("torch.", "")
