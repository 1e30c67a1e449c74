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
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
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
from typing import Any, Final, Generic, Protocol, cast

import numpy as np

from trnsim.dtypes import Dtype
from trnsim.nki.language.objects import NKIObject
from trnsim.nki.reads import (
    NOTHING,
    VALUES,
    Read,
    Unforeseeable,
    content,
    does_nothing_else,
    is_of,
    reads,
)

OWN: Final = ("trnsim", "nki", "neuronxcc", "nki_cpu_simulator", "neuron_dtypes")
_LIBRARIES: Final = (
    "abc", "collections", "dataclasses", "enum", "functools", "itertools", "math", "reprlib",
    "typing", "typing_extensions", "__future__",
)  # fmt: skip
_BUILTINS: Final = (
    "abs", "all", "any", "bin", "bool", "bytes", "callable", "chr", "classmethod", "complex",
    "dict", "divmod", "enumerate", "filter", "float", "format", "frozenset", "hasattr", "hex",
    "int", "isinstance", "issubclass", "iter", "len", "list", "map", "max", "min", "next",
    "object", "oct", "ord", "pow", "property", "range", "repr", "reversed", "round", "set",
    "slice", "sorted", "staticmethod", "str", "sum", "super", "tuple", "type", "zip",
)  # fmt: skip
_NUMPY: Final = (
    "arange", "array", "asarray", "clip", "concatenate", "cumsum", "dtype", "eye", "finfo", "full",
    "iinfo", "linspace", "max", "mean", "min", "ones", "prod", "stack", "sum", "tile", "transpose",
    "tril", "triu", "zeros",
)  # fmt: skip
PRINT: Final = builtins.print
"""Python's own, whatever stands in its place later."""
_MAKERS: Final = (*OWN, "abc", "enum")
_KERNELS: Final = "trnsim.nki.kernel"
ATOMS: Final = frozenset({NoneType, bool, int, float, complex, str, bytes, range, EllipsisType})
"""Types whose values never change and have no attributes; not so those that inherit from them."""
_CONSTANTS: Final = (np.dtype, np.ufunc, Dtype, UnionType)
_NUMBERS: Final = ("numpy", "ml_dtypes")
_BASES: Final = (object, abc.ABC, NKIObject, Generic, Protocol)
"""Classes of others that keep nothing of an object themselves."""
_ENUM_BASES: Final = (
    int, str, float, bytes, enum.Enum, enum.IntEnum, enum.StrEnum, enum.Flag, enum.IntFlag,
    enum.ReprEnum,
)  # fmt: skip
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
        self._functions: list[tuple[FunctionType, tuple[object, ...]]] = []
        self._containers: list[tuple[Any, tuple[object, ...]]] = []
        self._classes: list[tuple[type, tuple[type, ...]]] = []
        self._instances: list[tuple[object, type, object]] = []
        self._seen: dict[int, object] = {}
        self._abstract = abc.get_cache_token()
        self.may_print = False
        try:
            for value in named:
                self._look_at(value)
        except Unforeseeable:
            raise
        except Exception as error:  # noqa: BLE001  a class of the user's may raise anything
            raise Unforeseeable(repr(error)) from None

    def are_unchanged(self) -> bool:
        """Whether every name still means the same object, and holds what it held."""
        return (
            all(space.get(name, NOTHING) is value for space, name, value in self._names.values())
            and all(content(cell) is value for cell, value in self._cells)
            and all(_are_same(_items(held), items) for held, items in self._containers)
            and all(_are_same(made.__bases__, bases) for made, bases in self._classes)
            and all(
                type(value) is kind and attributes_of(value) is held
                for value, kind, held in self._instances
            )
            and all(_are_same(_parts(function), parts) for function, parts in self._functions)
            and abc.get_cache_token() == self._abstract
        )

    def _look_at(self, value: object) -> None:
        """Note what `value` depends on.

        Raises:
            Unforeseeable: as above.
        """
        kind = type(value)
        if kind in ATOMS or issubclass(kind, _CONSTANTS) or is_number(kind):
            return
        if id(value) in self._seen:
            return
        self._seen[id(value)] = value
        look = self._looks.get(kind)
        if look is not None:
            look(self, value)
        elif issubclass(kind, type):
            self._look_at_class(cast("type", value))
        elif is_named_tuple(kind):
            self._look_at(kind)
            self._look_at_each(value)
        elif kind.__module__ == _KERNELS:  # a kernel, as `nki.jit` makes it
            self._look_at(getattr(value, "__wrapped__", NOTHING))
        elif is_of(kind.__module__, ("typing",)):
            self._look_at_each((getattr(value, "__origin__", None), getattr(value, "__args__", ())))
        elif not is_of(kind.__module__, OWN) or kind is NKIObject:
            self._look_at_instance(value)

    def which(self, objects: Iterable[object]) -> list[int]:
        """Which of these objects are known by name, by identity; 0 for the others."""
        return [id(value) if id(value) in self._seen else 0 for value in objects]

    def _look_at_each(self, values: Any) -> None:
        for value in values:
            self._look_at(value)

    def _look_at_container(self, value: Any) -> None:
        items = _items(value)
        self._containers.append((value, items))
        self._look_at_each(items)

    def _look_at_partial(self, value: functools.partial[Any]) -> None:
        self._look_at_each((value.func, value.args, value.keywords, vars(value)))

    def _look_at_alias(self, value: GenericAlias) -> None:
        self._look_at_each((value.__origin__, value.__args__))

    def _look_at_method(self, value: MethodType) -> None:
        self._look_at_each((value.__func__, value.__self__))

    def _look_at_property(self, value: property) -> None:
        self._look_at_each((value.fget, value.fset, value.fdel))

    def _look_at_wrapper(self, value: Any) -> None:
        self._look_at(value.__func__)

    def _look_at_builtin(self, value: BuiltinFunctionType) -> None:
        is_known = is_of(value.__module__, (*_LIBRARIES, "_functools", "_operator", "_collections"))
        if value.__module__ == "builtins":
            is_known = value.__name__ in _BUILTINS
        if not is_known:
            raise Unforeseeable(f"{value!r:.60}")

    def _look_at_instance(self, value: object) -> None:
        """An object by its class and its attributes."""
        kind, held = type(value), attributes_of(value)
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
            isinstance(leave, FunctionType) and does_nothing_else(leave.__code__)
        ):
            raise Unforeseeable(f"{made}, which may do something about errors")
        annotations = space.get("__annotations__", {})
        self._containers += [(space, _items(space)), (annotations, _items(annotations))]
        for name, value in space.items():
            if not _is_description(made, name, value):
                self._look_at(value)

    def _look_at_function(self, function: FunctionType) -> None:
        home = function.__globals__.get("__name__")  # a decorator may have changed `__module__`
        if is_of(home, OWN):
            return
        self._functions.append((function, _parts(function)))
        annotations = function.__annotations__
        self._containers.append((annotations, _items(annotations)))
        code = function.__code__
        if code.co_qualname.startswith("__create_fn__."):  # what a dataclass is given
            return
        self._look_at_each((function.__defaults__, function.__kwdefaults__, function.__dict__))
        is_tuple = str(home).startswith("namedtuple_") and function.__name__ == "__new__"
        if is_tuple and code.co_filename == "<string>":  # what a named tuple is given
            return
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
                if isinstance(value, ModuleType):
                    value = self._attribute(value, attribute)
                elif attribute in VALUES or type(value).__module__ == _KERNELS:
                    raise Unforeseeable(f"{read.name}.{attribute}")
                else:  # what it is follows from the object
                    break
            if not isinstance(value, ModuleType):
                self._look_at(value)
            elif read.is_value and not is_of(value.__name__, OWN + _LIBRARIES):
                raise Unforeseeable(f"the module {value.__name__} as a value")
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                inner = {name: cell for name, cell in cells.items() if name in constant.co_freevars}
                self._look_at_code(constant, names, inner)

    def _meant(self, read: Read, names: Mapping[str, Any]) -> object:
        """What a name means: an import, an outer variable, of the module, or Python's own."""
        if read.module is not None:
            self._hold(sys.modules, read.name, read.module)
            return read.module
        if read.cell is not None:
            return self._look_at_cell(read.cell)
        name = read.name
        self._hold(names, name, names.get(name, NOTHING))
        if name in names:
            return names[name]
        value = vars(builtins).get(name, NOTHING)
        self._hold(vars(builtins), name, value)
        if value is PRINT and read.is_called:
            self.may_print = True
            return None
        return None if value is NOTHING else value  # a name without a meaning is an error

    def _attribute(self, module: ModuleType, name: str) -> object:
        value = vars(module).get(name, NOTHING)
        self._hold(vars(module), name, value)
        if is_of(module.__name__, OWN):
            return None if value is NOTHING else value  # ours say what they have not
        if is_of(module.__name__, ("numpy",)) and not isinstance(value, (float, *_CONSTANTS)):
            is_plain = isinstance(value, ModuleType) or (
                isinstance(value, type) and _is_known_class(value)
            )
            if not is_plain and name not in _NUMPY:
                raise Unforeseeable(f"{module.__name__}.{name}")
            return value if is_plain else None
        if value is NOTHING or type(module) is not ModuleType:  # it may come from anywhere
            raise Unforeseeable(f"{module.__name__}.{name}")
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
        GenericAlias: _look_at_alias,
    }


def attributes_of(value: object) -> Any:
    """The `__dict__` of an object, without asking its class; None where it has none."""
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None


def is_named_tuple(kind: type) -> bool:
    """Whether a class is one of named tuples."""
    return issubclass(kind, tuple) and "_fields" in vars(kind)


def is_number(kind: type) -> bool:
    """Whether values of this class are numpy's numbers, which never change."""
    return (
        issubclass(kind, np.number | np.bool_)
        and not issubclass(kind, np.timedelta64)
        and kind.__module__ in _NUMBERS
    )


def is_transparent(kind: type) -> bool:
    """Whether all that an object of this class is, lies in its `__dict__`."""
    slots = chain(*(vars(base).values() for base in kind.__mro__))
    if any(isinstance(slot, MemberDescriptorType) for slot in slots):
        return False
    bases = (*_BASES, *_ENUM_BASES) if issubclass(kind, enum.Enum) else _BASES
    return not any(_is_known_class(base) and base not in bases for base in kind.__mro__)


def _is_known_class(made: type) -> bool:
    if made.__module__ == "builtins":
        return made.__name__ in _BUILTINS or issubclass(made, BaseException)
    if is_of(made.__module__, _NUMBERS):
        return issubclass(made, np.generic) or made is np.ndarray
    return is_of(made.__module__, OWN + _LIBRARIES)


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
    is_method = isinstance(value, staticmethod | classmethod)
    return isinstance(made, enum.EnumType) and is_sunder and not is_method


def _parts(function: FunctionType) -> tuple[object, ...]:
    """What a function is made of, apart from its attributes."""
    return (
        function.__code__,
        function.__defaults__,
        function.__kwdefaults__,
        function.__name__,
        function.__doc__,
    )


def _items(container: Any) -> tuple[object, ...]:
    """What is in a container now, keys and values of a dictionary one after the other."""
    if isinstance(container, dict | MappingProxyType):
        return tuple(chain.from_iterable(container.items()))
    return tuple(container)


def _are_same(these: tuple[object, ...], those: tuple[object, ...]) -> bool:
    return len(these) == len(those) and all(map(operator.is_, these, those))
