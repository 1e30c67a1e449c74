"""A plugin: a patch of a package that looks devices up by name and does not know this one.

A plugin states its package, the names that it replaces there and why, and the releases with which
it was tested. An untested release is patched with a warning; a release without the names is left
unpatched, with a warning.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from importlib import metadata
from types import ModuleType
from typing import Any


@dataclass(frozen=True)
class Plugin:
    """A patch of another package.

    Attributes:
        package: the package's name for pip.
        tested: tested releases by their leading numbers; "2.6" stands for all of 2.6.
        module: the package's module, which is patched as soon as it is imported.
        replaces: the names replaced there ("function", "Class.method"), all of which must exist.
        why: a sentence on the failure without it.
        source: the file of the package that shows it.
        apply: the function that patches the module.
    """

    package: str
    tested: tuple[str, ...]
    module: str
    replaces: tuple[str, ...]
    why: str
    source: str
    apply: Callable[[ModuleType], None]

    def patch(self, module: ModuleType) -> None:
        """Patch the module, which was just imported, or warn if it lacks a name."""
        release = _release(self.package)
        tested = " and ".join(self.tested)
        missing = [name for name in self.replaces if not _has_name(module, name)]
        if missing:
            _warn(
                f"{self.package} {release} has no {', '.join(missing)} in {self.module} and is left"
                f" as it is: {self.why}. The device was tested with {self.package} {tested}"
            )
            return
        if not any(f"{release}.".startswith(f"{prefix}.") for prefix in self.tested):
            _warn(f"the device 'neuron' was tested with {self.package} {tested}, not {release}")
        self.apply(module)


def replace(module: ModuleType, name: str, ours: Any) -> None:
    """Replace a name of `module` by `ours`, also in modules that have imported it already."""
    theirs = vars(module)[name]
    for place in [module, *sys.modules.values()]:
        if getattr(place, "__dict__", {}).get(name) is theirs:
            setattr(place, name, ours)


def _release(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "of unknown release"


def _has_name(module: ModuleType, name: str) -> bool:
    try:
        reduce(getattr, name.split("."), module)
    except AttributeError:
        return False
    return True


def _warn(text: str) -> None:
    """Warn at the line that imports the package, as nearly as Python can tell."""
    warnings.warn(f"trnsim: {text}", stacklevel=4)
