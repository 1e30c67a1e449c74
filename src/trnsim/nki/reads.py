"""What Python code reads by name, from its bytecode."""

from __future__ import annotations

import dis
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CellType, CodeType, ModuleType
from typing import Final

_VALUES: Final = frozenset({"array", "bits", "load", "output", "storage", "touched"})
"""Attributes by which Python sees what is in a tensor, or its bytes."""
_NAMED: Final = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_FREE: Final = frozenset({"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"})
_ATTRIBUTE: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_CHANGES: Final = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL"})
_CHANGES_FREE: Final = frozenset({"STORE_DEREF", "DELETE_DEREF"})
_CHANGES_OF: Final = frozenset({"STORE_ATTR", "DELETE_ATTR"})
_CATCHES: Final = frozenset({"CHECK_EXC_MATCH", "CHECK_EG_MATCH"})

NOTHING: Final = object()
"""What a name means that means nothing."""


class Unforeseeable(Exception):
    """A function names or does something that may be another thing the next time."""


@dataclass(frozen=True)
class Read:
    """A name that code reads: of its module or Python's, of an outer function, or an import.

    Attributes:
        name: the name.
        cell: the outer function's variable, if it is one.
        module: the module that it imports, if it imports one.
        attributes: the names of attributes read one after the other, from the object on.
        is_called: whether it is called at once, and not handed on.
    """

    name: str
    cell: CellType | None = None
    module: ModuleType | None = None
    attributes: tuple[str, ...] = ()
    is_called: bool = False


def reads(code: CodeType, cells: Mapping[str, CellType]) -> Iterator[Read]:
    """Each name that `code` reads, without the code within it.

    Raises:
        Unforeseeable: where it changes a name of others, swallows errors, imports relatively, or
            asks for an attribute by which values are seen.
    """
    steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
    _refuse_handlers(steps)
    for place, step in enumerate(steps):
        name = step.argval
        if step.opname in _CHANGES or (step.opname in _CHANGES_FREE and name in cells):
            raise Unforeseeable(f"it changes {name}")
        if step.opname in _ATTRIBUTE and name in _VALUES and not _is_of_module(steps, place):
            raise Unforeseeable(f"it may look at values: .{name}")
        if step.opname in _NAMED:
            is_called = step.opname == "LOAD_GLOBAL" and bool((step.arg or 0) & 1)
            yield Read(name, attributes=_attributes(steps, place), is_called=is_called)
        elif step.opname in _FREE and name in cells:
            yield Read(name, cells[name], attributes=_attributes(steps, place))
        elif step.opname == "IMPORT_NAME":
            yield from _imported(steps, place)


def returns_nothing(code: CodeType) -> bool:
    """Whether all that `code` returns is None or False: an `__exit__` that swallows no error."""
    steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
    returned = [
        step if step.opname == "RETURN_CONST" else steps[place - 1]
        for place, step in enumerate(steps)
        if step.opname in ("RETURN_VALUE", "RETURN_CONST")
    ]
    return all(
        step.opname in ("LOAD_CONST", "RETURN_CONST") and step.argval in (None, False)
        for step in returned
    )


def content(cell: CellType) -> object:
    """What a variable of an outer function holds."""
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return NOTHING


def is_of(module: object, packages: tuple[str, ...]) -> bool:
    """Whether a module is one of these packages, or within one."""
    return isinstance(module, str) and module.partition(".")[0] in packages


def _refuse_handlers(steps: Sequence[dis.Instruction]) -> None:
    """Errors may depend on values: who handles them may do something else another time."""
    found = Counter(step.opname for step in steps)
    # The handler of a `with` statement raises again, unless its manager swallows errors.
    if found["PUSH_EXC_INFO"] > found["WITH_EXCEPT_START"] or any(found[name] for name in _CATCHES):
        raise Unforeseeable("it handles errors, which may depend on values")


def _attributes(steps: Sequence[dis.Instruction], place: int) -> tuple[str, ...]:
    """The attributes that are read of what step `place` loads."""
    names: list[str] = []
    for step in steps[place + 1 :]:
        if step.opname in _CHANGES_OF:
            raise Unforeseeable(f"it changes an attribute of {steps[place].argval}")
        if step.opname not in _ATTRIBUTE:
            break
        names.append(step.argval)
    return tuple(names)


def _is_of_module(steps: Sequence[dis.Instruction], place: int) -> bool:
    """Whether an attribute may well be a module's function, as in `nl.load`."""
    return place > 0 and steps[place - 1].opname in _NAMED | _FREE


def _imported(steps: Sequence[dis.Instruction], place: int) -> Iterator[Read]:
    """What an import inside a function brings."""
    name, level, wanted = (steps[at].argval for at in (place, place - 2, place - 1))
    following = steps[place + 1].opname
    if wanted is None and following != "IMPORT_FROM":  # `import a.b` names a
        name = name.partition(".")[0]
    module = sys.modules.get(name)
    if level or module is None:
        raise Unforeseeable(f"the import of {name}")
    for attribute in wanted or ():
        yield Read(name, module=module, attributes=(attribute,))
    if not wanted:
        yield Read(name, module=module)
