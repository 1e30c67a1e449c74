"""A hook that calls a function with another package's module when that module is imported.

The package is not imported here. A finder at the head of `sys.meta_path` lets the other finders
find the module, and calls the function after the module's code has run, before any importer can
take names from it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Callback = Callable[[ModuleType], None]


class _Watcher:
    """An import finder for a single module, which it finds through the other finders."""

    def __init__(self, name: str, callback: Callback) -> None:
        self._name = name
        self._callback = callback

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of the finders after this one; its loader then calls `callback`.

        Besides Python's own, there are finders of packages that are installed in place.
        """
        if fullname != self._name:
            return None
        finders = sys.meta_path[sys.meta_path.index(self) + 1 :]
        specs = (finder.find_spec(fullname, path, target) for finder in finders)
        spec = next((spec for spec in specs if spec is not None), None)
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
