"""What Python code reads by name, from its bytecode."""

from __future__ import annotations

import dis
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import CellType, CodeType, ModuleType
from typing import Final

VALUES: Final = frozenset({
    *("array", "bits", "load", "output", "storage", "touched", "_array"),
    *("fill", "put", "store", "mark_written", "mark_written_where", "forget_array"),
})  # fmt: skip
"""Attributes by which Python sees what is in a tensor, or changes it, past the instructions."""
_NAMED: Final = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_FREE: Final = frozenset({"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"})
_LOCAL: Final = frozenset({"LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW"})
_ATTRIBUTE: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_CHANGES: Final = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL"})
_CHANGES_FREE: Final = frozenset({"STORE_DEREF", "DELETE_DEREF"})
# `f.count += 1` copies f before it asks for the attribute.
_CHANGES_OF: Final = frozenset({"STORE_ATTR", "DELETE_ATTR", "COPY"})
_HANDLES: Final = frozenset({"CHECK_EXC_MATCH", "CHECK_EG_MATCH"})
_FAST: Final = re.compile("(?:LOAD|STORE)_FAST(?:_BORROW|_CHECK)?")
_RETURNS: Final = frozenset({"RETURN_VALUE", "RETURN_CONST"})

NOTHING: Final = object()
"""What a name means that means nothing."""


class Unforeseeable(Exception):
    """A function names or does something that may be another thing the next time."""


@dataclass(frozen=True)
class Read:
    """A name that code reads: of its module or Python's, of an outer function, or an import.

    Attributes:
        name: the name; of an import, the module's.
        cell: the outer function's variable, if it is one.
        module: the module that it imports, if it imports one.
        attributes: the names of attributes read one after the other, from the object on.
        is_called: whether it is called at once, and not handed on.
        is_value: whether something is done with it here: an import alone does nothing.
    """

    name: str
    cell: CellType | None = None
    module: ModuleType | None = None
    attributes: tuple[str, ...] = ()
    is_called: bool = False
    is_value: bool = True


def reads(code: CodeType, cells: Mapping[str, CellType]) -> Iterator[Read]:
    """Each name that `code` reads, without the code within it.

    Raises:
        Unforeseeable: where it changes a name of others, handles errors, imports relatively, or
            asks for an attribute by which values are seen.
    """
    steps = _steps(code)
    _refuse(steps, cells)
    imported = _imports(steps)
    taken: set[int] = set()
    for place, step in enumerate(steps):
        read = None
        if step.opname in _NAMED:
            is_called = step.opname == "LOAD_GLOBAL" and bool((step.arg or 0) & 1)
            read = Read(step.argval, is_called=is_called)
        elif step.opname in _FREE and step.argval in cells:
            read = Read(step.argval, cells[step.argval])
        elif step.opname in _LOCAL:
            read = imported.get(step.argval)
        if read is not None:
            attributes = _attributes(steps, place)
            taken.update(range(place + 1, place + 1 + len(attributes)))
            yield replace(read, attributes=read.attributes + attributes)
    for place, step in enumerate(steps):
        if step.opname == "IMPORT_NAME":
            yield from _imported(steps, place)
        elif step.opname in _ATTRIBUTE and step.argval in VALUES and place not in taken:
            raise Unforeseeable(f"it may look at values: .{step.argval}")


def does_nothing_else(code: CodeType) -> bool:
    """Whether an `__exit__` swallows no error and names nothing that it could tell of one."""
    steps = _steps(code)
    returned = [
        step if step.opname == "RETURN_CONST" else steps[place - 1]
        for place, step in enumerate(steps)
        if step.opname in _RETURNS
    ]
    return not any(step.opname in _NAMED | _FREE for step in steps) and all(
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


def _steps(code: CodeType) -> list[dis.Instruction]:
    """The code's instructions; those that stand for two, from Python 3.13 on, as two."""
    steps: list[dis.Instruction] = []
    for step in dis.get_instructions(code):
        if isinstance(step.argval, tuple) and step.opname.count("_FAST") > 1:
            names = _FAST.findall(step.opname)
            pairs = zip(names, step.argval, strict=True)
            steps += [step._replace(opname=name, argval=value) for name, value in pairs]
        elif step.opname != "EXTENDED_ARG":
            steps.append(step)
    return steps


def _refuse(steps: Sequence[dis.Instruction], cells: Mapping[str, CellType]) -> None:
    """What may change something of others, or do something else another time."""
    found = Counter(step.opname for step in steps)
    # The handler of a `with` statement raises again, unless its manager swallows errors.
    if found["PUSH_EXC_INFO"] > found["WITH_EXCEPT_START"] or any(found[name] for name in _HANDLES):
        raise Unforeseeable("it handles errors, which may depend on values")
    if found["MATCH_CLASS"]:
        raise Unforeseeable("it matches attributes, by which it may look at values")
    for step in steps:
        is_free = step.opname in _CHANGES_FREE and step.argval in cells
        if step.opname in _CHANGES or is_free:
            raise Unforeseeable(f"it changes {step.argval}")
        if isinstance(step.argval, CodeType) and step.argval.co_name == "__exit__":
            raise Unforeseeable("it makes what may swallow errors")


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


def _imported(steps: Sequence[dis.Instruction], place: int) -> Iterator[Read]:
    """What an import inside a function brings."""
    name, level, wanted = (steps[at].argval for at in (place, place - 2, place - 1))
    if wanted is None and steps[place + 1].opname != "IMPORT_FROM":  # `import a.b` names a
        name = name.partition(".")[0]
    module = sys.modules.get(name)
    if level or module is None:
        raise Unforeseeable(f"the import of {name}")
    for attribute in wanted or ():
        yield Read(name, module=module, attributes=(attribute,))
    if not wanted:
        yield Read(name, module=module, is_value=False)


def _imports(steps: Sequence[dis.Instruction]) -> dict[str, Read]:
    """Local variables that an import fills, and nothing else."""
    stored = Counter(step.argval for step in steps if step.opname == "STORE_FAST")
    found: dict[str, Read] = {}
    for place, step in enumerate(steps):
        if step.opname != "IMPORT_NAME":
            continue
        targets: list[dis.Instruction] = []
        whole = list(_imported(steps, place))
        for following in steps[place + 1 :]:
            if following.opname.startswith("STORE_"):
                targets.append(following)
            if len(targets) == len(whole):
                break
        for target, read in zip(targets, whole, strict=True):
            if target.opname == "STORE_FAST" and stored[target.argval] == 1:
                found[target.argval] = replace(read, is_value=True)
    return found
