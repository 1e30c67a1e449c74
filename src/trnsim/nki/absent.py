"""Names that AWS's modules have, or had, and the modules here have not.

`hasattr` is False for them, and `from module import name` raises ImportError, so a program that
asks first, or tries, takes its other way. Both errors say what the name was and what to write.

An AttributeError alone would not do: Python drops its text in a from-import. Before that it looks
for a submodule of the name, through `sys.meta_path`, where the finder here refuses these names.
Other submodules that do not exist are left to Python.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from trnsim.errors import NotModelled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType


class AbsentAttribute(NotModelled, AttributeError):
    """An attribute that a module of AWS's has; `hasattr` and `getattr` with a default know it."""


class AbsentImport(NotModelled, ImportError):
    """The same in a from-import."""


class Absence(NamedTuple):
    """What a name was, what to write instead, and the document that says so."""

    reason: str
    fix: str
    source: str


class AbsentNames:
    """The absent names of one module.

    Attributes:
        module: the module's name here.
        public: its name in programs.
        explain: the absence of a name; None for one that AWS's module never had.
    """

    def __init__(self, module: str, public: str, explain: Callable[[str], Absence | None]) -> None:
        self.module = module
        self.public = public
        self.explain = explain
        _finder.of_modules[module] = self

    def refuse(self, name: str) -> NoReturn:
        """What the module's `__getattr__` does.

        Raises:
            AttributeError: always; an AbsentAttribute for a name that AWS's module has.
        """
        absence = self.explain(name)
        if absence is None:
            raise AttributeError(f"module {self.public!r} has no attribute {name!r}")
        raise AbsentAttribute(absence.reason, fix=absence.fix, source=absence.source)


class _Finder:
    """An import finder that finds nothing, and refuses absent names in from-imports.

    It stands last: a submodule that exists is found before.
    """

    def __init__(self) -> None:
        self.of_modules: dict[str, AbsentNames] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> None:
        """None for all other names.

        Raises:
            AbsentImport: for an absent name of a module that has some.
        """
        del path, target
        module, _, name = fullname.rpartition(".")
        names = self.of_modules.get(module)
        absence = names.explain(name) if names is not None else None
        if names is not None and absence is not None:
            error = AbsentImport(absence.reason, fix=absence.fix, source=absence.source)
            error.name = names.public
            raise error


_finder = _Finder()
sys.meta_path.append(_finder)
