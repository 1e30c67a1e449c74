"""`neuronxcc.nki`: the older generation of NKI (0.1), of which only `typing` exists here.

AWS's own kernels below it, which are closed, can be imported and are refused when they are called.

Where the user has chosen NKI 0.2 or 0.3, `language` and `isa` are the modules of `nki`: kernels of
these versions may still use the older names.
"""

import sys
from collections.abc import Sequence
from importlib import import_module, util
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from trnsim.absence import Absence, AbsentImport, AbsentNames
from trnsim.behaviours.chosen import asked_version
from trnsim.behaviours.language import OLD_NAMESPACE
from trnsim.nki import typing
from trnsim.nki.aliases.neuronxcc import closed_names

__all__ = ["typing"]

_COMPILER = "compiler"  # the module of direct allocation in NKI 0.1
"""A submodule that is refused beside served ones."""
_SERVED_MODULES = {"language": "trnsim.nki.aliases.older_language", "isa": "trnsim.nki.isa"}


def _is_served(name: str) -> bool:
    choice = asked_version()
    return name in _SERVED_MODULES and choice is not None and choice.version.follows(OLD_NAMESPACE)


def _explain(name: str) -> Absence | None:
    if name.startswith("__") or _is_served(name) or closed_names.is_closed(name):
        return None
    choice = asked_version()
    if name in _SERVED_MODULES and choice is not None:
        return Absence(
            f"neuronxcc.nki.{name} stands for nki.{name} {OLD_NAMESPACE.span}, and "
            f"{choice.reason} asks for {choice.version}",
            fix=OLD_NAMESPACE.instead,
            source=OLD_NAMESPACE.source,
        )
    return Absence(
        f"neuronxcc.nki.{name} belongs to NKI 0.1, the older generation, which is not emulated yet",
        fix="migrate the kernel to `import nki` (0.2 and later)",
        source="nki/migration/index.rst",
    )


_ABSENT_NAMES = AbsentNames(__name__, "neuronxcc.nki", _explain)


def __getattr__(name: str) -> Any:
    if _is_served(name):
        return import_module(_SERVED_MODULES[name])
    if name in closed_names.CLOSED_PACKAGES:
        return import_module(f"{__name__}.{name}")
    if name in closed_names.DECORATORS and closed_names.is_for_library():
        return closed_names.ClosedDecorator(f"neuronxcc.nki.{name}")
    return _ABSENT_NAMES.serve(name)


def _is_probe() -> bool:
    """True if `importlib.util.find_spec` asks, which answers whether a module is there."""
    frame = sys._getframe(2)  # noqa: SLF001  documented, to walk a stack
    while frame is not None and frame.f_code.co_filename.startswith("<frozen importlib._"):
        frame = frame.f_back  # type: ignore[assignment]
    return frame is not None and frame.f_code is util.find_spec.__code__


class _OlderNameLoader(Loader):
    """The finder and loader of `neuronxcc.nki.language` and `.isa`, as modules of `nki`.

    It refuses `.compiler`, which programs of NKI 0.1 import beside these.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module of `nki` under a name of neuronxcc; None where a program only looks for it.

        Raises:
            AbsentImport: if no version is chosen, or the chosen version no longer has the name.
        """
        del path, target
        package, _, name = fullname.rpartition(".")
        if package != "neuronxcc.nki" or name not in {*_SERVED_MODULES, _COMPILER}:
            return None
        if closed_names.is_closed(name):
            return None
        absence = _explain(name)
        if absence is not None:
            if _is_probe():
                return None
            raise AbsentImport(absence.reason, fix=absence.fix, source=absence.source)
        return ModuleSpec(fullname, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module of `nki`, which keeps its own spec."""
        module = import_module(_SERVED_MODULES[spec.name.rpartition(".")[2]])
        self._own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: the module was imported under its own name."""
        module.__spec__ = self._own_spec


sys.meta_path += [_OlderNameLoader(), closed_names.ClosedFinder()]
