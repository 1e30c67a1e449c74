"""A hook that calls a function with another package's module when that module is imported.

The package is not imported here. A finder at the head of `sys.meta_path` lets Python's own finders
find the module, and calls the function after the module's code has run, before any importer can
take names from it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Callback = Callable[[ModuleType], None]


class _Watcher:
    """An import finder for a single module, which it finds through Python's own finders."""

    def __init__(self, name: str, callback: Callback) -> None:
        self._name = name
        self._callback = callback

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: object = None
    ) -> ModuleSpec | None:
        """The spec of Python's own finders for this module; its loader then calls `callback`."""
        del target
        if fullname != self._name:
            return None
        spec = PathFinder.find_spec(fullname, path)
        loader: Any = spec.loader if spec else None
        if loader is not None:
            load = loader.exec_module

            def load_and_call(module: ModuleType) -> None:
                load(module)
                self._callback(module)

            loader.exec_module = load_and_call
        return spec


def when_imported(name: str, callback: Callback) -> None:
    """Call `callback(module)` for the module `name`: now if it is imported, else upon import."""
    if name in sys.modules:
        callback(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Watcher(name, callback))
