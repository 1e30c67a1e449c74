"""What a kernel reads besides its arguments: names of its module, closures, functions, classes.

A kernel whose arguments and surroundings are what they were issues the same instructions again, so
its program need not be traced anew. That is claimed only of functions every part of which is known
here: Python code that reads constants, functions and classes like it, `nki`, `math` and what numpy
has of constants and element functions. Whatever else a function names (a file, an array, a clock, a
cache, random numbers of the host) may change or be changed unseen: it is traced each time.

Values are taken for constants by their exact types: what inherits from `str`, `dict` or `Enum` has
methods and attributes of its own, which are looked at like those of any other class.
"""

from __future__ import annotations

import abc
import builtins
import dataclasses
import enum
import functools
import operator
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    EllipsisType,
    FunctionType,
    GenericAlias,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    NoneType,
    UnionType,
)
from typing import Any, Final, Generic, Protocol

import numpy as np

from trnsim.dtypes import Dtype
from trnsim.nki.language.objects import NKIObject
from trnsim.nki.reads import (
    NOTHING,
    Read,
    Unforeseeable,
    content,
    is_of,
    reads,
    returns_nothing,
)

OWN: Final = ("trnsim", "nki", "neuronxcc", "nki_cpu_simulator", "neuron_dtypes")
_LIBRARIES: Final = (
    "abc", "collections", "dataclasses", "enum", "functools", "itertools", "math", "typing",
    "typing_extensions", "__future__",
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
_MAKERS: Final = (*OWN, "abc", "enum")
_KERNELS: Final = "trnsim.nki.kernel"
ATOMS: Final = frozenset({NoneType, bool, int, float, complex, str, bytes, range, EllipsisType})
"""Types whose values never change and have no attributes; not so those that inherit from them."""
_CONSTANTS: Final = (np.number, np.bool_, np.dtype, np.ufunc, Dtype, GenericAlias, UnionType)
_BASES: Final = (object, abc.ABC, NKIObject, Generic, Protocol)
"""Classes of others that keep nothing of an object themselves."""
_DESCRIPTORS: Final = (MemberDescriptorType, GetSetDescriptorType)
_DESCRIPTIONS: Final = frozenset({
    *("__dict__", "__weakref__", "__doc__", "__annotations__", "__module__", "__qualname__"),
    *("_abc_impl", "__abstractmethods__", "__dataclass_fields__", "__dataclass_params__"),
    *("__match_args__", "__slots__", "__orig_bases__", "_fields", "_field_defaults"),
    *("__parameters__", "__static_attributes__", "__firstlineno__"),
})  # fmt: skip


class Surroundings:
    """What functions read besides their arguments, as it was when this was made.

    Naming `print` is no matter here: who captures a call sees whether it is called.

    Attributes:
        may_print: whether one names `print`.
    """

    def __init__(self, *named: object) -> None:
        """Look at functions and classes, and at all that they name.

        Raises:
            Unforeseeable: where something of it may change unseen.
        """
        self._names: dict[tuple[int, str], tuple[Mapping[str, Any], str, object]] = {}
        self._cells: list[tuple[CellType, object]] = []
        self._functions: list[tuple[FunctionType, CodeType, object, object]] = []
        self._containers: list[tuple[Any, tuple[object, ...]]] = []
        self._classes: list[tuple[type, tuple[type, ...]]] = []
        self._instances: list[tuple[object, type, object]] = []
        self._seen: dict[int, object] = {}
        self._abstract = abc.get_cache_token()
        self.may_print = False
        try:
            for value in named:
                self._look_at(value)
        except RecursionError:
            raise Unforeseeable("something nested very deeply") from None

    def are_unchanged(self) -> bool:
        """Whether every name still means the same object, and holds what it held."""
        return (
            all(space.get(name, NOTHING) is value for space, name, value in self._names.values())
            and all(content(cell) is value for cell, value in self._cells)
            and all(_are_same(_items(held), items) for held, items in self._containers)
            and all(made.__bases__ == bases for made, bases in self._classes)
            and all(
                type(value) is kind and getattr(value, "__dict__", None) is held
                for value, kind, held in self._instances
            )
            and all(
                function.__code__ is code
                and function.__defaults__ is defaults
                and function.__kwdefaults__ is named
                for function, code, defaults, named in self._functions
            )
            and abc.get_cache_token() == self._abstract
        )

    def _look_at(self, value: object) -> None:
        """Note what `value` depends on.

        Raises:
            Unforeseeable: as above.
        """
        if type(value) in ATOMS or isinstance(value, _CONSTANTS) or id(value) in self._seen:
            return
        self._seen[id(value)] = value
        look = self._looks.get(type(value))
        if look is not None:
            look(self, value)
        elif isinstance(value, type):
            self._look_at_class(value)
        elif isinstance(value, enum.Enum):
            self._look_at_instance(value)
            self._look_at(value.value)
        elif isinstance(value, tuple) and hasattr(value, "_fields"):
            self._look_at(type(value))
            self._look_at_each(value)
        elif type(value).__module__ == _KERNELS:  # a kernel, as `nki.jit` makes it
            self._look_at(getattr(value, "__wrapped__", NOTHING))
        elif not is_of(type(value).__module__, (*OWN, "typing")) or type(value) is NKIObject:
            self._look_at_instance(value)

    def _look_at_each(self, values: Any) -> None:
        for value in values:
            self._look_at(value)

    def _look_at_container(self, value: Any) -> None:
        items = _items(value)
        self._containers.append((value, items))
        self._look_at_each(items)

    def _look_at_partial(self, value: functools.partial[Any]) -> None:
        self._look_at_each((value.func, value.args, value.keywords))

    def _look_at_method(self, value: MethodType) -> None:
        self._look_at_each((value.__func__, value.__self__))

    def _look_at_property(self, value: property) -> None:
        self._look_at_each((value.fget, value.fset, value.fdel))

    def _look_at_wrapper(self, value: Any) -> None:
        self._look_at(value.__func__)

    def _look_at_builtin(self, value: BuiltinFunctionType) -> None:
        is_known = is_of(value.__module__, (*_LIBRARIES, "_operator", "operator"))
        if value.__module__ == "builtins":
            is_known = value.__name__ in _BUILTINS
        if not is_known:
            raise Unforeseeable(f"{value!r:.60}")

    def _look_at_instance(self, value: object) -> None:
        """An object by its class and its attributes."""
        kind, held = type(value), getattr(value, "__dict__", None)
        if held is None or not is_transparent(kind):
            raise Unforeseeable(f"{kind}, which keeps something where it is not seen")
        self._instances.append((value, kind, held))
        self._look_at(kind)
        self._look_at_container(held)

    def _look_at_class(self, made: type) -> None:
        if _is_known_class(made):
            return
        kind = type(made)
        if made.__module__ == "builtins" or not (kind is type or is_of(kind.__module__, _MAKERS)):
            raise Unforeseeable(f"{made!r:.60}")
        self._classes.append((made, made.__bases__))
        self._look_at_each(made.__bases__)
        self._look_at_each(_defaults(made))
        space = vars(made)
        leave = space.get("__exit__")
        if leave is not None and not (
            isinstance(leave, FunctionType) and returns_nothing(leave.__code__)
        ):
            raise Unforeseeable(f"{made}, which may swallow errors")
        self._containers.append((space, _items(space)))
        for name, value in space.items():
            if not _is_description(made, name, value):
                self._look_at(value)

    def _look_at_function(self, function: FunctionType) -> None:
        home = function.__globals__.get("__name__")  # a decorator may have changed `__module__`
        if is_of(home, OWN):
            return
        code, defaults, named = function.__code__, function.__defaults__, function.__kwdefaults__
        self._functions.append((function, code, defaults, named))
        if code.co_qualname.startswith("__create_fn__.") or str(home).startswith("namedtuple_"):
            return  # what a dataclass or a named tuple is given
        self._look_at_each((defaults, named, function.__dict__))
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        if not is_of(home, _LIBRARIES):
            self._look_at_code(code, function.__globals__, cells)
            return
        for cell in cells.values():  # what a library's decorator calls
            self._look_at_cell(cell)

    def _look_at_cell(self, cell: CellType) -> object:
        value = content(cell)
        self._cells.append((cell, value))
        self._look_at(value)
        return value

    def _look_at_code(
        self, code: CodeType, names: Mapping[str, Any], cells: Mapping[str, CellType]
    ) -> None:
        """What the code reads by name, and what the code within it does."""
        for read in reads(code, cells):
            value = self._meant(read, names)
            for attribute in read.attributes:
                if not isinstance(value, ModuleType):
                    if type(value).__module__ == _KERNELS:
                        raise Unforeseeable("an attribute of a kernel")
                    break
                value = self._attribute(value, attribute)
            if not isinstance(value, ModuleType):
                self._look_at(value)
            elif not is_of(value.__name__, OWN + _LIBRARIES):
                raise Unforeseeable(f"the module {value.__name__} as a value")
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                inner = {name: cell for name, cell in cells.items() if name in constant.co_freevars}
                self._look_at_code(constant, names, inner)

    def _meant(self, read: Read, names: Mapping[str, Any]) -> object:
        """What a name means: an import, an outer variable, of the module, or Python's own."""
        if read.module is not None:
            return read.module
        if read.cell is not None:
            return self._look_at_cell(read.cell)
        name = read.name
        self._hold(names, name, names.get(name, NOTHING))
        if name not in names and name == "print" and read.is_called:
            self.may_print = True
            return None
        return names[name] if name in names else vars(builtins).get(name)

    def _attribute(self, module: ModuleType, name: str) -> object:
        value = vars(module).get(name, NOTHING)
        if is_of(module.__name__, OWN + _LIBRARIES):
            return getattr(module, name, NOTHING)
        if is_of(module.__name__, ("operator", "numpy")):
            value = getattr(module, name, NOTHING)
            if isinstance(value, (ModuleType, BuiltinFunctionType, *_CONSTANTS)):
                return None if name in _NUMPY else value
            if isinstance(value, float) or name in _NUMPY:
                return None
            if isinstance(value, type) and issubclass(value, np.generic | np.dtype):
                return value
            raise Unforeseeable(f"{module.__name__}.{name}")
        if value is NOTHING or type(module) is not ModuleType:  # it may come from anywhere
            raise Unforeseeable(f"{module.__name__}.{name}")
        self._hold(vars(module), name, value)
        return value

    def _hold(self, space: Mapping[str, Any], name: str, value: object) -> None:
        self._names[id(space), name] = (space, name, value)

    _looks: Final[dict[type, Callable[[Any, Any], None]]] = {
        tuple: _look_at_each,
        frozenset: _look_at_each,
        list: _look_at_container,
        dict: _look_at_container,
        set: _look_at_container,
        FunctionType: _look_at_function,
        BuiltinFunctionType: _look_at_builtin,
        MethodType: _look_at_method,
        staticmethod: _look_at_wrapper,
        classmethod: _look_at_wrapper,
        property: _look_at_property,
        functools.partial: _look_at_partial,
    }


def is_transparent(kind: type) -> bool:
    """Whether all that an object of this class is, lies in its `__dict__`."""
    if issubclass(kind, enum.Enum):  # an integer or a string may be its value
        return True
    slots = chain(*(vars(base).values() for base in kind.__mro__))
    return not any(
        _is_known_class(base) and base not in _BASES for base in kind.__mro__
    ) and not any(isinstance(slot, MemberDescriptorType) for slot in slots)


def _is_known_class(made: type) -> bool:
    if made.__module__ == "builtins":
        return made.__name__ in _BUILTINS or issubclass(made, BaseException)
    return is_of(made.__module__, OWN + _LIBRARIES) or issubclass(made, np.number | np.bool_)


def _defaults(made: type) -> Iterator[object]:
    """What a dataclass's fields are made of where nothing is given."""
    for field in dataclasses.fields(made) if dataclasses.is_dataclass(made) else ():
        for value in (field.default, field.default_factory):
            yield None if value is dataclasses.MISSING else value


def _is_description(made: type, name: str, value: object) -> bool:
    """Whether Python itself gave this to a class, to say what it is."""
    if name in _DESCRIPTIONS or isinstance(value, _DESCRIPTORS):
        return True
    if type(value).__name__ == "_tuplegetter" or (name == "_make" and hasattr(made, "_fields")):
        return True
    is_sunder = name.startswith("_") and name.endswith("_") and not isinstance(value, FunctionType)
    return isinstance(made, enum.EnumType) and is_sunder and not isinstance(value, staticmethod)


def _items(container: Any) -> tuple[object, ...]:
    """What is in a container now, keys and values of a dictionary one after the other."""
    if isinstance(container, dict | MappingProxyType):
        return tuple(chain.from_iterable(container.items()))
    return tuple(container)


def _are_same(these: tuple[object, ...], those: tuple[object, ...]) -> bool:
    return len(these) == len(those) and all(map(operator.is_, these, those))
