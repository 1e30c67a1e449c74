"""What a package needs that asks for devices by name and does not know this one.

A plugin states which package it serves, which names it replaces there and why, and with which
releases that was tested. All are treated alike: an untested release is served with a warning; one
that does not have the names is left as it is, with a warning.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from functools import reduce
from importlib import metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


@dataclass(frozen=True)
class Plugin:
    """A patch of another package.

    Attributes:
        package: its name, as pip knows it.
        tested: releases that it was tested with, by their leading numbers: "2.6" is all of 2.6.
        module: the module of the package that is patched as soon as it is imported.
        replaces: what it replaces there ("function", "Class.method"); all of it has to exist.
        why: what does not work without it, a sentence.
        source: the file of the package that shows it.
        apply: patches the module.
    """

    package: str
    tested: tuple[str, ...]
    module: str
    replaces: tuple[str, ...]
    why: str
    source: str
    apply: Callable[[ModuleType], None]

    def serve(self, module: ModuleType) -> None:
        """Apply the plugin to its module, which has just been imported, where that is possible."""
        release = _release(self.package)
        tested = " and ".join(self.tested)
        missing = [name for name in self.replaces if not _has(module, name)]
        if missing:
            _warn(
                f"{self.package} {release} has no {', '.join(missing)} in {self.module} and is left"
                f" as it is: {self.why}. The device was tested with {self.package} {tested}"
            )
            return
        if not any(f"{release}.".startswith(f"{known}.") for known in self.tested):
            _warn(f"the device 'neuron' was tested with {self.package} {tested}, not {release}")
        self.apply(module)


def replace(module: ModuleType, name: str, ours: Any) -> None:
    """Put `ours` in the place of a name of `module`, and wherever else it was imported already."""
    theirs = vars(module)[name]
    for place in [module, *sys.modules.values()]:
        if getattr(place, "__dict__", {}).get(name) is theirs:
            setattr(place, name, ours)


def _release(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "of unknown release"


def _has(module: ModuleType, name: str) -> bool:
    try:
        reduce(getattr, name.split("."), module)
    except AttributeError:
        return False
    return True


def _warn(text: str) -> None:
    """Warn at the line that imports the package, as far as Python can tell."""
    warnings.warn(f"trnsim: {text}", stacklevel=4)
