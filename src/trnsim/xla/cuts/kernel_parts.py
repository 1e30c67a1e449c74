"""A call of an NKI kernel as a recording has it: the kernel, its constants, its tensors.

Two kernels of one name and line are equal if their code, the numbers and words that it closes over
or reads from the user's modules, and their options are: a kernel that each step decorates anew
equals the kernel of the step before, and a kernel with a new tile size differs.
"""

from __future__ import annotations

import dis
from collections.abc import Callable
from functools import lru_cache, partial
from inspect import signature
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final
from weakref import ref

from trnsim.device.call_time import TensorSpec
from trnsim.device.kernel_call import KernelCall
from trnsim.errors import is_program_file
from trnsim.nki.kernel import Kernel
from trnsim.xla.cuts.values import Operand

_PLAIN: Final = (bool, int, float, complex, str, bytes, type(None), type, CodeType)
_MOST_DEEP: Final = 4
"""Depth of functions within functions, and of lists, whose contents are compared."""
_kernels: Final[dict[str, dict[object, int]]] = {}
"""The contents of the kernels of each name and line, with numbers in the order of first calls."""


def kernel_text(kernel: Kernel) -> str:
    """The text by which kernels are compared: line, cores, and number among kernels of the line."""
    line = kernel.line
    place = f"{kernel.title} at {line}, {kernel.cores} cores"
    content = (_content(kernel.function), repr(kernel.options), repr(kernel.schedule))
    numbers = _kernels.setdefault(place, {})
    return f"{place}, {numbers.setdefault(content, len(numbers))}"


def _content(
    function: Any, function_numbers: dict[int, int] | None = None, depth: int = 0
) -> object:
    """The code of a function and the plain values that it reads; else its identity."""
    function_numbers = {} if function_numbers is None else function_numbers
    if isinstance(function, partial):
        bound = (*function.args, *sorted(function.keywords.items()))
        return (
            _content(function.func, function_numbers, depth),
            _comparable(bound, function_numbers, depth),
        )
    code = getattr(function, "__code__", None)
    if code is None or depth > _MOST_DEEP:
        return _Identity(function)
    if id(function) in function_numbers:  # it calls itself, or two functions call it
        return function_numbers[id(function)]
    function_numbers[id(function)] = len(function_numbers)
    parts = (
        *(*_closed_over(function), function.__defaults__, function.__kwdefaults__),
        *_globals_read(function),
    )
    return (code, _comparable(parts, function_numbers, depth + 1))


def _closed_over(function: Any) -> list[Any]:
    """The values that a function closes over; None for a variable that is not set yet."""
    values: list[Any] = []
    for cell in function.__closure__ or ():
        try:
            values.append(cell.cell_contents)
        except ValueError:
            values.append(None)
    return values


def _globals_read(function: Any) -> list[Any]:
    """The globals that a function of the user's reads, and the attributes of them that it names."""
    code, scope = function.__code__, getattr(function, "__globals__", {})
    if not is_program_file(code.co_filename):
        return []
    names, attributes = _names_of(code)
    values = [scope[name] for name in names if name in scope]
    for value in tuple(values):
        if isinstance(value, ModuleType) and not _is_of_program(value):
            continue
        if not isinstance(value, FunctionType | Kernel) and hasattr(value, "__dict__"):
            values += [vars(value).get(name) for name in attributes]
    return [value for value in values if not isinstance(value, ModuleType)]


def _is_of_program(module: ModuleType) -> bool:
    """True for a module of the program; a module built into Python has no file."""
    file = getattr(module, "__file__", None)
    return file is not None and is_program_file(file)


@lru_cache(maxsize=1024)
def _names_of(code: CodeType) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(Names of globals, names of attributes) that the code of a function and within it reads."""
    names: dict[str, dict[str, None]] = {"LOAD_GLOBAL": {}, "LOAD_ATTR": {}, "LOAD_METHOD": {}}
    pending_codes = [code]
    while pending_codes:
        part = pending_codes.pop(0)
        pending_codes += [const for const in part.co_consts if isinstance(const, CodeType)]
        for instruction in dis.get_instructions(part):
            if instruction.opname in names:
                names[instruction.opname][instruction.argval] = None
    return tuple(names["LOAD_GLOBAL"]), (*names["LOAD_ATTR"], *names["LOAD_METHOD"])


def _comparable(value: Any, function_numbers: dict[int, int], depth: int) -> object:
    """A plain value with its type, so that 1 is not 1.0; any other value by its identity."""
    if isinstance(value, tuple):
        return tuple([_comparable(part, function_numbers, depth) for part in value])
    if isinstance(value, list) and depth <= _MOST_DEEP:  # a list may be within itself
        return (list, _comparable(tuple(value), function_numbers, depth + 1))
    if isinstance(value, dict):
        return tuple([_comparable(pair, function_numbers, depth) for pair in value.items()])
    if isinstance(value, _PLAIN):
        return (type(value), repr(value) if isinstance(value, float) else value)
    function = value.function if isinstance(value, Kernel) else value
    return _content(function, function_numbers, depth)


class _Identity:
    """A value that equals only itself; it is kept alive only if it cannot have weak references."""

    def __init__(self, value: object) -> None:
        self._number = id(value)
        self._value: Callable[[], object]
        try:
            self._value = ref(value)
        except TypeError:  # of a class without weak references
            self._value = lambda: value

    def __eq__(self, other: object) -> bool:
        value = self._value()
        return isinstance(other, _Identity) and value is not None and value is other._value()

    def __hash__(self) -> int:
        return self._number


def kernel_arguments(call: KernelCall) -> tuple[tuple[Any, ...], tuple[tuple[str, Any], ...]]:
    """The kernel and the arguments of its call by name, with operands in the place of tensors.

    Constants are text, since 1, 1.0 and True are equal but not to a kernel.
    """
    number = 0
    leaves: list[Any] = []
    for leaf in call.leaves:
        if isinstance(leaf, TensorSpec):
            leaves.append(Operand(number))
            number += 1
        else:
            leaves.append(_constant(leaf))
    args, kwargs = call.tree.unflatten(leaves)
    bound = _defaults(call.kernel.function) | call.kernel.bind(args, kwargs).arguments
    keywords = tuple((name, _as_tuples(value)) for name, value in bound.items())
    transposes = "transposed by the Tensor Engine" if call.is_transposed_by_engine else ""
    return (kernel_text(call.kernel), transposes), keywords


def _defaults(function: Any) -> dict[str, Any]:
    """The constants of parameters that a call may leave out."""
    parameters = signature(function).parameters.values()
    return {p.name: _constant(p.default) for p in parameters if p.default is not p.empty}


def _constant(value: object) -> str:
    """The text of a constant, which has no address in memory."""
    if callable(value):
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value)}"
    return repr(value)


def _as_tuples(value: Any) -> Any:
    """Nested arguments as tuples."""
    if isinstance(value, list | tuple):
        return tuple(_as_tuples(part) for part in value)
    if isinstance(value, dict):
        return tuple((str(key), _as_tuples(part)) for key, part in value.items())
    return value
