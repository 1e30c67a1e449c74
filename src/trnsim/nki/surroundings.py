"""What a kernel reads besides its arguments: names of its module, closures, functions, classes.

A kernel whose arguments and surroundings are what they were issues the same instructions again, so
its program need not be traced anew. That is claimed only of functions every part of which is known
here: Python code that reads constants, functions and classes like it, `nki`, `math` and what numpy
has of constants and element functions. Whatever else a function names (a file, an array, a clock,
random numbers of the host) may change or be changed unseen: it is traced each time.
"""

from __future__ import annotations

import builtins
import dataclasses
import dis
import enum
import functools
import inspect
import operator
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    GenericAlias,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    UnionType,
)
from typing import Any, Final

import numpy as np

from trnsim.dtypes import Dtype

_OWN: Final = ("trnsim", "nki", "neuronxcc", "nki_cpu_simulator", "neuron_dtypes")
_LIBRARIES: Final = (
    "abc", "collections", "dataclasses", "enum", "functools", "itertools", "math", "operator",
    "typing", "typing_extensions", "__future__",
)  # fmt: skip
_BUILTINS: Final = (
    "abs", "all", "any", "bool", "bytes", "callable", "classmethod", "complex", "dict",
    "divmod", "enumerate", "filter", "float", "frozenset", "hasattr", "int", "isinstance",
    "issubclass", "iter", "len", "list", "map", "max", "min", "next", "object", "pow",
    "property", "range", "repr", "reversed", "round", "set", "slice", "sorted",
    "staticmethod", "str", "sum", "super", "tuple", "type", "zip",
)  # fmt: skip
_NUMPY: Final = (
    "arange", "array", "asarray", "dtype", "finfo", "full", "iinfo", "ones", "prod", "zeros",
)  # fmt: skip
_KERNELS: Final = "trnsim.nki.kernel"
_VALUES: Final = frozenset({"array", "bits", "load", "storage"})
"""Attributes by which Python sees what is in a tensor, or its bytes."""
_ATOMS: Final = (type(None), bool, int, float, complex, str, bytes, range, type(...), np.generic,
                 np.dtype, np.ufunc, Dtype, enum.Enum)  # fmt: skip
_MAKERS: Final = (*_OWN, "abc", "enum")
_DESCRIPTIONS: Final = (
    "__dict__", "__weakref__", "__doc__", "__annotations__", "__module__", "_abc_impl",
)  # fmt: skip
_NAMED: Final = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_FREE: Final = frozenset({"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"})
_ATTRIBUTE: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM"})
_CHANGES: Final = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL"})
_CHANGES_OF: Final = frozenset({"STORE_ATTR", "DELETE_ATTR", "STORE_SUBSCR", "DELETE_SUBSCR"})
_NOTHING: Final = object()
Container = list[Any] | dict[Any, Any] | set[Any]


class Unforeseeable(Exception):
    """The function names something that may change unseen."""


class Surroundings:
    """What functions read besides their arguments, as it was when this was made.

    Naming `print` is no matter here: who captures a call sees what it prints.
    """

    def __init__(self, *named: object) -> None:
        """Look at functions and classes, and at all that they name.

        Raises:
            Unforeseeable: where something of it may change unseen.
        """
        self._names: dict[tuple[int, str], tuple[Mapping[str, Any], str, object]] = {}
        self._cells: list[tuple[CellType, object]] = []
        self._containers: list[tuple[Container, tuple[object, ...]]] = []
        self._functions: list[tuple[FunctionType, CodeType, object, object]] = []
        self._seen: dict[int, object] = {}
        for value in named:
            self._look_at(value)

    def are_unchanged(self) -> bool:
        """Whether every name still means the same object."""
        return (
            all(space.get(name, _NOTHING) is value for space, name, value in self._names.values())
            and all(_content(cell) is value for cell, value in self._cells)
            and all(_are_same(_items(held), items) for held, items in self._containers)
            and all(
                function.__code__ is code
                and function.__defaults__ is defaults
                and function.__kwdefaults__ is named
                for function, code, defaults, named in self._functions
            )
        )

    def _look_at(self, value: object) -> None:
        """Note what `value` depends on.

        Raises:
            Unforeseeable: as above.
        """
        if isinstance(value, _ATOMS) or id(value) in self._seen:
            return
        if value is _NOTHING:
            raise Unforeseeable("something without attributes of its own")
        self._seen[id(value)] = value
        parts = _parts(value)
        if parts is None and isinstance(value, list | dict | set):
            parts = _items(value)
            self._containers.append((value, parts))
        if parts is not None:
            for part in parts:
                self._look_at(part)
        elif isinstance(value, FunctionType):
            self._look_at_function(value)
        elif isinstance(value, type):
            self._look_at_class(value)
        elif not _is_known(value):
            self._look_at(type(value))
            self._look_at(getattr(value, "__dict__", _NOTHING))

    def _look_at_class(self, made: type) -> None:
        if _is_known_class(made):
            return
        kind = type(made)
        if made.__module__ == "builtins" or not (kind is type or _is_of(kind.__module__, _MAKERS)):
            raise Unforeseeable(f"{made!r:.60}")
        for base in made.__bases__:
            self._look_at(base)
        for default in _defaults(made):
            self._look_at(default)
        for name, value in vars(made).items():
            if name not in _DESCRIPTIONS and not _is_generated(made, name, value):
                self._hold(vars(made), name, value)
                self._look_at(value)

    def _look_at_function(self, function: FunctionType) -> None:
        home = function.__globals__.get("__name__")  # a decorator may have changed `__module__`
        if _is_of(home, _OWN):
            return
        code, defaults, named = function.__code__, function.__defaults__, function.__kwdefaults__
        self._functions.append((function, code, defaults, named))
        self._look_at(defaults)
        self._look_at(named)
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        if not _is_of(home, _LIBRARIES):
            self._look_at_code(code, function.__globals__, cells)
            return
        for cell in cells.values():  # what a library's decorator calls
            self._cells.append((cell, _content(cell)))
            self._look_at(_content(cell))

    def _look_at_code(
        self, code: CodeType, names: Mapping[str, Any], cells: Mapping[str, CellType]
    ) -> None:
        """What the code reads by name, and what the code within it does."""
        for value, follows in self._read(code, names, cells):
            if isinstance(value, ModuleType) and not _is_of(value.__name__, _OWN + _LIBRARIES):
                raise Unforeseeable(f"the module {value.__name__} as a value")
            if follows in _CHANGES_OF:
                raise Unforeseeable(f"a change of {value!r:.60}")
            self._look_at(value)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                inner = {name: cell for name, cell in cells.items() if name in constant.co_freevars}
                self._look_at_code(constant, names, inner)

    def _read(
        self, code: CodeType, names: Mapping[str, Any], cells: Mapping[str, CellType]
    ) -> Iterator[tuple[object, str]]:
        """Each object that the code names, attributes of modules followed; what comes after it."""
        steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
        steps.append(steps[-1])
        place = 0
        while place < len(steps) - 1:
            step = steps[place]
            place += 1
            if step.opname in _CHANGES or (
                step.opname in ("STORE_DEREF", "DELETE_DEREF") and step.argval in cells
            ):
                raise Unforeseeable(f"it changes {step.argval}")
            if step.opname == "CHECK_EXC_MATCH":
                raise Unforeseeable("it catches errors, which may depend on values")
            if step.opname in _ATTRIBUTE and step.argval in _VALUES:
                raise Unforeseeable(f"it may look at values: .{step.argval}")
            if step.opname in _NAMED:
                value = self._named(step.argval, names)
            elif step.opname in _FREE and step.argval in cells:
                value = _content(cells[step.argval])
                self._cells.append((cells[step.argval], value))
            elif step.opname == "IMPORT_NAME":
                value = sys.modules.get(step.argval, _NOTHING)
            else:
                continue
            while isinstance(value, ModuleType) and steps[place].opname in _ATTRIBUTE:
                value = self._attribute(value, steps[place].argval)
                place += 1
            yield value, steps[place].opname

    def _named(self, name: str, names: Mapping[str, Any]) -> object:
        """A name of the module, or one of Python's own."""
        if name in names:
            self._hold(names, name, names[name])
            return names[name]
        self._hold(names, name, _NOTHING)
        return None if name == "print" else vars(builtins).get(name)

    def _attribute(self, module: ModuleType, name: str) -> object:
        value = getattr(module, name, _NOTHING)
        if name in vars(module):
            self._hold(vars(module), name, value)
        is_plain = isinstance(value, (ModuleType, type, *_ATOMS))
        if is_plain or not _is_of(module.__name__, ("numpy",)):
            return value
        if name not in _NUMPY:
            raise Unforeseeable(f"numpy.{name}")
        return None

    def _hold(self, space: Mapping[str, Any], name: str, value: object) -> None:
        self._names[id(space), name] = (space, name, value)


def _items(container: Container) -> tuple[object, ...]:
    """What is in a container now, keys and values of a dictionary one after the other."""
    if isinstance(container, dict):
        return tuple(chain.from_iterable(container.items()))
    return tuple(container)


def _are_same(these: tuple[object, ...], those: tuple[object, ...]) -> bool:
    return len(these) == len(those) and all(map(operator.is_, these, those))


def _content(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return _NOTHING


def _parts(value: object) -> Iterable[object] | None:
    """What `value` consists of, where that is all it is."""
    parts: Iterable[object] | None = None
    if isinstance(value, tuple | frozenset):
        parts = value
    elif isinstance(value, MethodType):
        parts = value.__func__, value.__self__
    elif isinstance(value, staticmethod | classmethod):
        parts = (value.__func__,)
    elif isinstance(value, property):
        parts = value.fget, value.fset, value.fdel
    elif isinstance(value, functools.partial):
        parts = value.func, value.args, *value.keywords.values()
    elif type(value).__module__ == _KERNELS and callable(value):
        parts = (inspect.unwrap(value),)  # a kernel, as `nki.jit` makes it, is its function
    return parts


def _is_known(value: object) -> bool:
    """Whether an object is one of ours, or a library's function that always does the same."""
    if isinstance(value, GenericAlias | UnionType):
        return True
    if not isinstance(value, BuiltinFunctionType):
        return _is_of(type(value).__module__, (*_OWN, "typing"))
    if value.__module__ == "builtins":
        return value.__name__ in _BUILTINS
    return _is_of(value.__module__, _LIBRARIES)


def _is_known_class(made: type) -> bool:
    if made.__module__ == "builtins":
        return made.__name__ in _BUILTINS or issubclass(made, BaseException)
    return _is_of(made.__module__, _OWN + _LIBRARIES) or issubclass(made, np.generic | np.dtype)


def _defaults(made: type) -> Iterator[object]:
    """What a dataclass's fields are made of where nothing is given."""
    for field in dataclasses.fields(made) if dataclasses.is_dataclass(made) else ():
        for value in (field.default, field.default_factory):
            yield None if value is dataclasses.MISSING else value


def _is_generated(made: type, name: str, value: object) -> bool:
    """Whether Python itself gave this to an enumeration, a dataclass or a class with slots."""
    if isinstance(value, MemberDescriptorType):
        return True
    if not name.startswith("_") or isinstance(value, staticmethod | classmethod | property):
        return False
    if isinstance(value, FunctionType):
        return value.__code__.co_filename == "<string>"
    return isinstance(made, enum.EnumType) or dataclasses.is_dataclass(made)


def _is_of(module: object, packages: tuple[str, ...]) -> bool:
    """Whether a module is one of these packages, or within one."""
    return isinstance(module, str) and module.partition(".")[0] in packages
