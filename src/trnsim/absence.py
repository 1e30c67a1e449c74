"""Names that AWS's or PyTorch's modules have, or had, and the modules here lack.

Attributes that no object of AWS's has are refused by `refuse_attribute`.

`hasattr` is False for them, and `from module import name` raises ImportError, so a program that
tests for a name, or catches the error, takes its fallback. Both errors explain the name and its
replacement.

An AttributeError alone would not suffice: Python drops its text in a from-import. Before that it
searches for a submodule of the name, through `sys.meta_path`, where the finder here refuses these
names. Other submodules that do not exist are left to Python.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from types import ModuleType
from typing import Any, Final, NamedTuple, NoReturn

from trnsim.errors import IllegalInstruction, NotModelled

MODULES: Final = {
    "nl": "nki.language",
    "nisa": "nki.isa",
    "ncc": "nki.collectives",
    "nt": "nki.typing",
    "nki": "nki",
}
"""The usual name of each module of NKI in programs -> its full name."""


class AbsentAttribute(NotModelled, AttributeError):
    """Error of an attribute that AWS's module has; `hasattr` and `getattr` handle it."""


class RefusedImport(NotModelled, ImportError):
    """Error of an import, such as of a name that AWS's module has; an ImportError to programs."""


class AbsentImport(RefusedImport, ModuleNotFoundError):
    """Error of an import of a module that AWS has.

    Libraries for which AWS's package is optional catch it as they catch a missing package.
    """


def page_of(label: str) -> str:
    """The page of AWS's reference on what programs write as `label`: nki.language.ds of "nl.ds"."""
    module, _, name = label.partition(".")
    return f"{MODULES[module]}.{name}"


class NoAttribute(IllegalInstruction, AttributeError):
    """Error of an attribute that objects of NKI lack; `hasattr` and `getattr` handle it."""


def refuse_attribute(
    describe: Callable[[], str],
    name: str,
    legal: Iterable[str],
    *,
    spelling: str = "",
    error: type[NoAttribute] = NoAttribute,
) -> NoReturn:
    """Refuse an attribute of an object; the error has the legal ones, and the nearest of them.

    Args:
        describe: the function that gives the object as programs write it, such as "nisa.engine".
        name: the attribute.
        legal: the attributes that the object has.
        spelling: how the program asks, such as "[3]"; "" for ".name".
        error: class of the error.

    Raises:
        AttributeError: for a ".name" with an underscore before it, as libraries probe for such.
        NoAttribute: for every other name.
    """
    if name.startswith("_") and not spelling:
        raise AttributeError(name)
    label, names = describe(), list(legal)
    matches = get_close_matches(name, names, 1)
    if matches:
        fix = f"write {label}.{matches[0]}"
    else:
        fix = f"write one of these, such as {label}.{names[0]}" if names else f"write {label} alone"
    raise error(
        f"{label}{spelling or f'.{name}'}: there is none; "
        f"legal: {', '.join(names) or 'no attribute'}",
        fix=fix,
        source=page_of(label),
    )


class Absence(NamedTuple):
    """The meaning of an absent name, its replacement, and the source of both."""

    reason: str
    fix: str
    source: str


class AbsentNames:
    """The absent names of a module.

    Attributes:
        module: the module's name here.
        public: the module's name in programs: "nki.language".
    """

    def __init__(self, module: str, public: str, explain: Callable[[str], Absence | None]) -> None:
        """Absent names; `explain` returns a name's absence, None if AWS's module never had it."""
        self.module = module
        self.public = public
        self._explain = explain
        _finder.of_modules[module] = self

    def explain(self, name: str) -> Absence | None:
        """The absence of a name; None for a name that exists, or that AWS's module never had."""
        return self._explain(name)

    def closest_name(self, name: str) -> str:
        """The name of the module that is most like a misspelt one; "" if there is none."""
        module = sys.modules.get(self.module)  # None for a namespace that is no module
        legal = [] if name.startswith("_") else dir(module) if module is not None else []
        return next(iter(get_close_matches(name, legal, 1, 0.75)), "")

    def serve(self, name: str) -> Any:
        """The module's `__getattr__`.

        Raises:
            AttributeError: for every name; an AbsentAttribute for one that AWS's module has.
        """
        absence = self.explain(name)
        if absence is None:
            match = self.closest_name(name)
            perhaps = f"; did you mean {match!r}?" if match else ""
            raise AttributeError(f"module {self.public!r} has no attribute {name!r}{perhaps}")
        raise AbsentAttribute(absence.reason, fix=absence.fix, source=absence.source)


class _Finder:
    """An import finder without modules, which refuses absent names in from-imports.

    It is last, so existing submodules are imported by earlier finders.
    """

    def __init__(self) -> None:
        self.of_modules: dict[str, AbsentNames] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> None:
        """None: existing modules are left to other finders.

        Raises:
            RefusedImport: for an absent name of a module that has some.
        """
        del path, target
        module, _, name = fullname.rpartition(".")
        names = self.of_modules.get(module)
        absence = names.explain(name) if names is not None else None
        if names is not None and absence is not None:
            error = RefusedImport(absence.reason, fix=absence.fix, source=absence.source)
            error.name = names.public
            raise error
        if names is None or fullname in sys.modules:
            return
        match = names.closest_name(name)
        if match and match != name:
            raise ImportError(
                f"cannot import name {name!r} from {names.public!r}; did you mean {match!r}?",
                name=names.public,
            )


_finder = _Finder()
sys.meta_path.append(_finder)
