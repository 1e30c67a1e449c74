"""The import finder of last resort: Neuron's package names, answered by trnsim.

Python's start-up runs `trnsim.pth`, which imports this module, which appends one finder to
`sys.meta_path`. Being last, it is asked only for names that nothing else has, so a real Neuron SDK
always wins. Every Python that has trnsim installed pays for this file at start-up, so it imports
next to nothing, and trnsim itself only when one of its names is imported.

The alias is the very module (`nki.language is trnsim.nki.language`), with its submodules, so that
no class ever exists twice.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

ALIASES = {
    "nki": "trnsim.nki",
    "torch_neuron": "trnsim.torch",
    "torch_neuronx": "trnsim.torch",
}


class AliasLoader:
    """Loads `alias` as the module `target` under a second name."""

    def __init__(self, alias: str, target: str) -> None:
        self._alias = alias
        self._target = target
        self._own_spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:  # noqa: ARG002  part of the protocol
        """The target module, with its submodules in `sys.modules` under the alias too."""
        from importlib import import_module  # noqa: PLC0415  start-up pays for what stands above
        from pkgutil import walk_packages  # noqa: PLC0415

        module = import_module(self._target)
        self._own_spec = module.__spec__
        for found in walk_packages(getattr(module, "__path__", []), self._target + "."):
            submodule = import_module(found.name)
            sys.modules[self._alias + found.name.removeprefix(self._target)] = submodule
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Gives the module its own spec back: importlib has just put the alias's there."""
        module.__spec__ = self._own_spec


class LastResortFinder:
    """Finds the names of `ALIASES` where no installed package provides them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A spec for an aliased name, else None."""
        del path, target
        if fullname not in ALIASES:
            return None
        # importlib needs the two methods of AliasLoader, not its base class.
        loader = AliasLoader(fullname, ALIASES[fullname])
        return ModuleSpec(
            fullname,
            loader,  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
            is_package=True,
        )


def install() -> None:
    """Append the finder once."""
    if not any(isinstance(finder, LastResortFinder) for finder in sys.meta_path):
        sys.meta_path.append(LastResortFinder())


install()
