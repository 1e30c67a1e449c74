"""Stubs of the packages whose names trnsim answers, for editors and checkers of types (PEP 561).

No file of a package `nki` exists where a checker looks, since a finder answers its import. The
stubs beside trnsim in the wheel have its functions with their signatures and docstrings, made from
the modules as they are at run time. A stub is marked as partial: what it lacks is looked for in a
real package of the name, if one is installed.

`python docs/makers/stubs.py` writes them to src.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType
from typing import Any, Final

from trnsim.dtypes import Dtype

SOURCE: Final = Path(__file__).parents[2] / "src"
NKI: Final = {
    name: f"trnsim.{name}"
    for name in ("nki", "nki.collectives", "nki.compiler", "nki.isa", "nki.language", "nki.typing")
}
"""Modules whose names are written out, by the name that programs import."""
BY_NAME: Final = {
    "torch_neuron": "trnsim.torch",
    "torch_neuronx": "trnsim.xla.neuronx.by_name",
    "torch_xla": "trnsim.xla.by_name",
}
"""Packages whose modules are re-exported, with all that a checker does not see as Any."""
_HEAD: Final = "# Made by docs/makers/stubs.py from trnsim's own modules.\n"
_NOT_OF_PROGRAMS: Final = (
    "Absence",
    "OlderFormWarning",
    "UINT8",
    "VersionedNames",
    "check_turn",
    "documented",
    "documented_in",
    "follows",
    "is_simulator",
    "refuse_operator",
    "refuse_or_warn",
    "require",
    "running_version",
    "settle",
)
"""Names that the modules use themselves."""
_PLAIN: Final = (bool, int, float, str, type(None))
_DEFAULTS: Final = ("None", "True", "False", "()", "{}", "[]")


def stubs() -> dict[str, str]:
    """Paths of the stubs below src, with their text."""
    written: dict[str, str] = {}
    for name, target in NKI.items():
        package, *below = name.split(".")
        path = f"{package}-stubs/{'/'.join(below) if below else '__init__'}.pyi"
        written[path] = _module(import_module(name), target)
    for package, target in BY_NAME.items():
        written |= _re_exports(package, target)
    for package in ("nki", *BY_NAME):
        written[f"{package}-stubs/py.typed"] = "partial\n"
    return dict(sorted(written.items()))


def _module(module: ModuleType, target: str) -> str:
    """A stub that writes out the functions, classes and constants of a module."""
    imports: set[str] = {"from typing import Any"}
    body: list[str] = []
    for name in sorted(dir(module)):
        if name.startswith("_") or name in _NOT_OF_PROGRAMS:
            continue
        body += _declaration(name, getattr(module, name), target, imports)
    rest = "def __getattr__(name: str) -> Any: ...\n" if target == "trnsim.nki" else ""
    return f"{_HEAD}{chr(10).join(sorted(imports))}\n\n{chr(10).join(body)}\n{rest}"


def _declaration(name: str, value: Any, target: str, imports: set[str]) -> Iterator[str]:
    """The lines of a name; none for what the module only uses itself."""
    if inspect.ismodule(value):
        if f"{target}.{name}" in NKI.values():
            imports.add(f"from . import {name} as {name}")
    elif isinstance(value, type):
        is_choice = value.__module__.startswith("trnsim.isa") and name.islower()
        if (_is_own(value) or is_choice) and value.__name__ == value.__qualname__:
            # A stub exports an import under the name that it has there, and an assignment.
            shown = name if name == value.__name__ else f"_{value.__name__}"
            imports.add(f"from {value.__module__} import {value.__name__} as {shown}")
            if shown != name:
                yield f"{name} = {shown}"
    elif isinstance(value, Enum):
        kind = type(value)
        imports.add(f"from {kind.__module__} import {kind.__name__} as _{kind.__name__}")
        yield f"{name}: _{kind.__name__}"
    elif callable(value) and _is_own(value) and not isinstance(value, ModuleType | Dtype):
        yield from _function(name, value)
    elif _is_own(type(value)) and _is_of_private_class(value):
        yield f"{name} = Any"  # an annotation of parameters, which is a type to a checker
    elif _is_own(type(value)):
        kind = type(value)
        imports.add(f"from {kind.__module__} import {kind.__name__} as _{kind.__name__}")
        yield f"{name}: _{kind.__name__}"


def _is_own(value: Any) -> bool:
    """True for what trnsim's front end defines for programs."""
    module = getattr(value, "__module__", "") or type(value).__module__
    return module.startswith(("trnsim.nki", "trnsim.dtypes"))


def _is_of_private_class(value: Any) -> bool:
    return type(value).__name__.startswith("_")


def _function(name: str, value: Any) -> Iterator[str]:
    """The lines of a function: parameters with their defaults, and the docstring."""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        yield f"{name}: Any"
        return
    words, is_keyword = [], False
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not is_keyword:
            is_keyword = True
            words.append("*")
        mark = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
        mark = "**" if parameter.kind is parameter.VAR_KEYWORD else mark
        is_keyword |= parameter.kind is parameter.VAR_POSITIONAL
        default = "" if parameter.default is parameter.empty else f" = {_default(parameter)}"
        words.append(f"{mark}{parameter.name}: Any{default}")
    text = (inspect.getdoc(value) or "").replace("\\", "\\\\").replace('"""', "'''")
    yield f"def {name}({', '.join(words)}) -> Any:"
    if text:
        end = "\n" if "\n" in text else ""
        quoted = f'"""{text}{end}"""'
        yield "\n".join(f"    {line}".rstrip() for line in quoted.split("\n"))
    yield "    ..."


def _default(parameter: inspect.Parameter) -> str:
    """A default as an editor shows it; "..." for one that has no short form."""
    text = repr(parameter.default)
    if parameter.name.endswith("op") and isinstance(parameter.default, str):
        return "..."  # an operator, which programs name by `nki.language`
    return text if isinstance(parameter.default, _PLAIN) or text in _DEFAULTS else "..."


def _re_exports(package: str, target: str) -> dict[str, str]:
    """A stub for each module of a package, which has the names of the module that answers."""
    root = import_module(target)
    names = [target, *(each.name for each in walk_packages(root.__path__, f"{target}."))]
    if package == "torch_neuron":
        names = [target]
    written = {}
    for name in names:
        below = name.removeprefix(target).lstrip(".").split(".") if name != target else []
        is_package = any(other.startswith(f"{name}.") for other in names) or name == target
        path = "/".join([f"{package}-stubs", *below]) + ("/__init__" if is_package else "")
        rest = "\nfrom typing import Any\n\ndef __getattr__(name: str) -> Any: ...\n"
        written[f"{path}.pyi"] = f"{_HEAD}from {name} import *{rest}"
    return written


def main() -> None:
    """Write the stubs, and remove those that are no longer made."""
    written = stubs()
    for folder in SOURCE.glob("*-stubs"):
        for file in folder.rglob("*"):
            if file.is_file() and file.relative_to(SOURCE).as_posix() not in written:
                file.unlink()
    for path, text in written.items():
        file = SOURCE / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
