"""A plugin: a patch of a package that does not know this device, or chooses it wrongly.

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
        tested_releases: their leading numbers; "2.6" stands for all of 2.6.
        module: the package's module, which is patched as soon as it is imported.
        replaced_names: names in it ("function", "Class.method"), all of which must exist.
        reason: a sentence on the failure without it.
        source: the file of the package that shows it.
        apply: the function that patches the module.
    """

    package: str
    tested_releases: tuple[str, ...]
    module: str
    replaced_names: tuple[str, ...]
    reason: str
    source: str
    apply: Callable[[ModuleType], None]

    def patch(self, module: ModuleType) -> None:
        """Patch the module, which was just imported, or warn if it lacks a name."""
        release = _release(self.package)
        tested_text = " and ".join(self.tested_releases)
        names = ", ".join(name for name in self.replaced_names if not _has_name(module, name))
        if names:
            _warn(
                f"{self.package} {release} has no {names} in {self.module} and is left as it is: "
                f"{self.reason}. The device was tested with {self.package} {tested_text}"
            )
            return
        if not any(f"{release}.".startswith(f"{prefix}.") for prefix in self.tested_releases):
            _warn(
                f"the device 'neuron' was tested with {self.package} {tested_text}, not {release}"
            )
        self.apply(module)


def replace(module: ModuleType, name: str, replacement: Any) -> None:
    """Replace a name of `module`, also in modules that have imported it already."""
    original = vars(module)[name]
    for holder in [module, *sys.modules.values()]:
        if getattr(holder, "__dict__", {}).get(name) is original:
            setattr(holder, name, replacement)


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
