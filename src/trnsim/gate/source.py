"""Digests of a kernel's source: its function, the user's code that it calls, its version of NKI.

Comments, docstrings and the places of lines are left out, so a digest changes only where the
program may change.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import sysconfig
import textwrap
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final

import numpy as np

import trnsim
from trnsim.behaviours import LATEST
from trnsim.behaviours.chosen import VersionChoice
from trnsim.foreign_text import syntax_tree
from trnsim.gate.kernel_file import Arguments
from trnsim.nki.kernel import Kernel
from trnsim.runs import Run

_DIGEST_DIGITS: Final = 16
"""Hexadecimal digits of a digest."""
_PLAIN: Final = (bool, int, float, complex, str, bytes, type(None))
_ADDRESS: Final = " at 0x"
"""Mark of the default `repr` of an object, which has an address and no values."""
_MOST_DEPTH: Final = 6
"""Levels of values within values."""
_PACKAGE: Final = Path(trnsim.__file__).parent
_STANDARD: Final = Path(sysconfig.get_path("stdlib"))
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})


def source_digest(kernel: object, arguments: Arguments) -> str:
    """The digest of a kernel's source, of the user's code that it uses, and of its inputs' shapes.

    A version of NKI that someone chose, or that spellings in the file imply, is a part of it. The
    latest version does not count if nobody chose it, as it moves with trnsim.
    """
    texts: list[str] = []
    _gather(_function_of(kernel), texts, set())
    texts.append(inputs_text(arguments))
    texts.append(repr(getattr(kernel, "cores", 1)))
    schedule = getattr(kernel, "schedule", None)
    texts.append(repr(getattr(schedule, "pairs", ())))
    if isinstance(kernel, Kernel):
        texts.append(_version_text(kernel.version()))
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:_DIGEST_DIGITS]


def files_digest(run: Run, script: Path) -> str:
    """The digest of a program and of the user's files whose lines issued a run's instructions."""
    files = {line.file for line in run.program.lines} | {str(script)}
    texts: list[str] = []
    for file in sorted(filter(_is_users, files), key=lambda file: Path(file).name):
        try:
            tree = syntax_tree(Path(file).read_bytes())
        except (OSError, SyntaxError, ValueError):
            continue
        _drop_docstrings(tree)
        texts.append(ast.unparse(tree))
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:_DIGEST_DIGITS]


def _version_text(choice: VersionChoice) -> str:
    """The version of NKI whose rules hold, "" for the latest by default; True for its simulator."""
    is_latest = choice.version is LATEST and not choice.is_chosen
    return f"{'' if is_latest else choice.version} {choice.is_simulated}"


def inputs_text(arguments: Arguments) -> str:
    """Arguments as text: dtype and shape of an array, the value of any other argument."""
    texts = [_argument_text(value) for value in arguments.positional]
    texts += [f"{name}={_argument_text(value)}" for name, value in arguments.keywords.items()]
    return ", ".join(texts)


def _argument_text(value: Any) -> str:
    if isinstance(value, tuple | list):
        return f"({', '.join(map(_argument_text, value))})"
    return _value_text(value)


def _value_text(value: Any, depth: int = _MOST_DEPTH) -> str:
    """A value as text that is the same in every process: arrays by dtype and shape, sets sorted."""
    if isinstance(value, (*_PLAIN, np.generic)):
        return repr(value)
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is not None and dtype is not None:
        return f"{str(dtype).removeprefix('torch.')}[{','.join(map(str, shape))}]"
    if isinstance(value, type | FunctionType | ModuleType):
        return str(getattr(value, "__qualname__", value.__name__))
    if isinstance(value, Mapping | set | frozenset | tuple | list):
        return _container_text(value, depth - 1) if depth else type(value).__name__
    return _object_text(value, depth - 1) if depth else type(value).__name__


def _container_text(value: Any, depth: int) -> str:
    """A mapping, set, list or tuple."""
    if isinstance(value, Mapping):
        pairs = [[_value_text(part, depth) for part in pair] for pair in value.items()]
        return f"{{{', '.join(': '.join(pair) for pair in pairs)}}}"
    parts = [_value_text(part, depth) for part in value]
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(parts))}}}"
    if isinstance(value, list):
        return f"[{', '.join(parts)}]"
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def _object_text(value: Any, depth: int) -> str:
    """An object by its own text, or by its class and members."""
    members: Mapping[str, Any] = {}
    if isinstance(value, functools.partial):
        members = {"func": value.func, "args": value.args, "keywords": value.keywords}
    elif isinstance(value, Enum):
        return f"{type(value).__qualname__}.{value.name}"
    elif is_dataclass(value):
        members = {row.name: getattr(value, row.name) for row in fields(value)}
    elif _ADDRESS not in repr(value):
        return repr(value)
    elif _is_users(_file_of(type(value))):
        members, depth = getattr(value, "__dict__", {}), min(depth, 1)
    words = (f"{name}={_value_text(inner, depth)}" for name, inner in members.items())
    return f"{type(value).__qualname__}({', '.join(words)})"


def _function_of(kernel: object) -> Any:
    function = getattr(kernel, "function", kernel)
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.unwrap(function) if callable(function) else function


def _gather(function: Any, texts: list[str], visited_ids: set[int]) -> None:
    """Add the texts of a function, and of the user's functions and constants that it names."""
    if id(function) in visited_ids:
        return
    visited_ids.add(id(function))
    try:
        tree = syntax_tree(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError, TypeError):  # typed in at a prompt
        code = getattr(function, "__code__", None)
        texts.append(repr((code.co_code, code.co_names)) if code is not None else repr(function))
        return
    _drop_docstrings(tree)
    texts.append(ast.unparse(tree))
    scope = _scope_of(function)
    for path in _names(tree):
        value = _value_of_name(path, scope)
        if isinstance(value, FunctionType) or hasattr(value, "function"):
            inner = _function_of(value)
            if isinstance(inner, FunctionType) and _is_users(inner.__code__.co_filename):
                _gather(inner, texts, visited_ids)
        elif isinstance(value, type):
            if _is_users(_file_of(value)):
                _gather(value, texts, visited_ids)
        elif isinstance(value, functools.partial):
            texts.append(f"{'.'.join(path)} = {_value_text(value)}")
            _gather(_function_of(value), texts, visited_ids)
        elif value is not NotImplemented and not isinstance(value, ModuleType):
            texts.append(f"{'.'.join(path)} = {_value_text(value)}")


def _scope_of(function: Any) -> Mapping[str, Any]:
    if isinstance(function, FunctionType):
        return {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
    module = inspect.getmodule(function)
    return vars(module) if module is not None else {}


def _names(tree: ast.AST) -> list[tuple[str, ...]]:
    """The names and dotted names that a text reads, each once, in order."""
    paths = (_path(node) for node in ast.walk(tree) if isinstance(node, ast.Name | ast.Attribute))
    return sorted({path for path in paths if path})


def _path(node: ast.expr) -> tuple[str, ...]:
    """The parts of a dotted name; () for an attribute of another expression."""
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.Attribute):
        prefix = _path(node.value)
        return (*prefix, node.attr) if prefix else ()
    return ()


def _value_of_name(path: tuple[str, ...], scope: Mapping[str, Any]) -> Any:
    """The value of a dotted name in a scope; NotImplemented unless all its modules are a user's."""
    value = scope.get(path[0], NotImplemented)
    for name in path[1:]:
        file = getattr(value, "__file__", None) or ""  # a module built into Python has none
        if not isinstance(value, ModuleType) or not _is_users(file):
            return NotImplemented
        value = getattr(value, name, NotImplemented)
    return value


def _file_of(kind: type[Any]) -> str:
    try:
        return inspect.getfile(kind)
    except (OSError, TypeError):
        return ""


def _is_users(file: str) -> bool:
    """True if a file is neither trnsim's, Python's own nor of an installed package."""
    if not file or file.startswith("<"):
        return False
    path = Path(file)
    if path.is_relative_to(_PACKAGE):
        return path.is_relative_to(_PACKAGE / "examples")
    return not path.is_relative_to(_STANDARD) and _INSTALLED.isdisjoint(path.parts)


def _drop_docstrings(tree: ast.AST) -> None:
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    for node in ast.walk(tree):
        if isinstance(node, definitions) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
