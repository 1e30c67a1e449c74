"""The import finder of last resort: Neuron's package names, answered by trnsim.

Python's start-up runs `trnsim.pth`, which imports this module, which adds one finder to
`sys.meta_path`. It answers only for names that no other finder has a package for, so a real
Neuron SDK always wins. Where AWS's variables name the processes of a JAX program, a second finder
adds these to the clusters that JAX knows. Every Python that has trnsim installed pays for this file
at start-up, so it imports next to nothing, and trnsim itself only when one of its names is
imported.

The alias is the very module (`nki.language is trnsim.nki.language`), with its submodules, so that
no class ever exists twice.

PYTEST_DONT_REWRITE: pytest rewrites the assertions of a distribution that has a plugin, and warns
of a module of it that is there before.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from importlib.metadata import Distribution
    from types import ModuleType
    from typing import Any

ALIASES = {
    "jax_neuronx": "trnsim.jax.by_name.jax_neuronx",
    "libneuronxla": "trnsim.jax.by_name.libneuronxla",
    "neuron_dtypes": "trnsim.nki.aliases.neuron_dtypes",
    "neuronxcc": "trnsim.nki.aliases.neuronxcc",
    "nki": "trnsim.nki",
    "nki_cpu_simulator": "trnsim.nki.aliases.nki_cpu_simulator",
    "torch_neuron": "trnsim.torch",
    "torch_neuronx": "trnsim.xla.neuronx.by_name",
    "torch_xla": "trnsim.xla.by_name",
}
OF_TRNSIM = {"aliases", "migrate"}
"""Subpackages of a target that are trnsim's own, which have no name below the alias."""
EXECUTED = {"trnsim.xla.by_name.distributed.fsdp.consolidate_sharded_ckpts"}
"""Modules that `python -m` executes by their aliases, so they have no second name beforehand."""
OF_PROGRAMS = {"torch_xla"}
"""Aliases for programs: a library asks for them to learn whether it runs on XLA."""
OF_NEURON = ("libneuronxla", "neuronx", "optimum.neuron", "torch_neuronx", "torch_xla", "trnsim")
"""Libraries that run on XLA's device alone, by the beginnings of their names."""
DISTRIBUTIONS = {"torch_xla": "2.9.0"}
"""Versions of aliases for libraries that ask `importlib.metadata` whether a package is there."""
RUNTIME = "PJRT_DEVICE"
"""With the value NEURON, libraries get the aliases of programs too."""

PROCESSES = "NEURON_PJRT_PROCESSES_NUM_DEVICES"
CLUSTERS = "jax._src.clusters"
CLUSTER = "trnsim.jax.cluster"


class AliasLoader:
    """Loads `alias` as the module `target` under a second name."""

    def __init__(self, alias: str, target: str) -> None:
        self._alias = alias
        self._target = target
        self._own_spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:  # noqa: ARG002  part of the protocol
        """The target module, with its submodules in `sys.modules` under the alias too."""
        module = _register(self._alias, self._target)
        self._own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Gives the module its own spec back: importlib has just put the alias's there."""
        module.__spec__ = self._own_spec


def _register(alias: str, target: str) -> ModuleType:
    """The module `target`, whose submodules are in `sys.modules` under `alias` too."""
    from importlib import import_module  # noqa: PLC0415  start-up pays for what stands above
    from pkgutil import iter_modules  # noqa: PLC0415

    module = import_module(target)
    modules: Any = sys.modules
    below = {found.name: f"{target}.{found.name}" for found in iter_modules(_path(module))}
    below |= vars(module).get("SUBMODULES", {})
    for name, submodule in below.items():
        if name in OF_TRNSIM:
            modules[f"{alias}.{name}"] = None  # its import is an ImportError
        elif submodule not in EXECUTED:
            modules[f"{alias}.{name}"] = _register(f"{alias}.{name}", submodule)
    return module


def _path(module: ModuleType) -> list[str]:
    """The folders of a package's submodules; [] for a plain module."""
    return list(getattr(module, "__path__", []))


def _is_for_importer(name: str) -> bool:
    """False for an alias of programs where a library asks for it.

    accelerate and transformers prefer XLA to the device "neuron" wherever they find `torch_xla`.
    Once a program has imported it, they get it from `sys.modules`.
    """
    if name not in OF_PROGRAMS or os.environ.get(RUNTIME) == "NEURON":
        return True
    frame = sys._getframe(2)  # noqa: SLF001  documented, to walk a stack
    while frame is not None and _is_of_imports(frame.f_code.co_filename):
        frame = frame.f_back  # type: ignore[assignment]
    if frame is None or frame.f_globals.get("__name__", "").startswith(OF_NEURON):
        return True
    parts = frame.f_code.co_filename.replace("\\", "/").split("/")
    return not {"site-packages", "dist-packages"}.intersection(parts)


def _is_of_imports(file: str) -> bool:
    """True for a file of Python's own imports, or this one."""
    path = file.replace("\\", "/")
    return file.startswith("<frozen importlib") or file == __file__ or "/importlib/" in path


def _distribution(name: str) -> Distribution:
    """The distribution of an alias for `importlib.metadata`: a name and a version, no files."""
    from importlib.metadata import Distribution  # noqa: PLC0415  start-up pays for what stands above

    class AliasDistribution(Distribution):
        def read_text(self, filename: str) -> str | None:
            if filename != "METADATA":
                return None
            return f"Metadata-Version: 2.1\nName: {name}\nVersion: {DISTRIBUTIONS[name]}\n"

        def locate_file(self, path: Any) -> Any:
            raise FileNotFoundError(f"{path}: {name} is answered by trnsim and has no files")

    return AliasDistribution()


def _other_specs(
    finder_class: type, name: str, path: Sequence[str] | None, target: ModuleType | None
) -> Iterator[ModuleSpec]:
    """The specs with which finders of other classes would import the module `name`.

    As Python does, it passes over a finder without `find_spec`, such as one of distributions alone.
    """
    for finder in sys.meta_path:
        find_spec = getattr(finder, "find_spec", None)
        if find_spec is not None and not isinstance(finder, finder_class):
            spec = find_spec(name, path, target)
            if spec is not None:
                yield spec


class LastResortFinder:
    """Finds the names of `ALIASES` where no installed package provides them.

    It comes first, asks every other finder, and answers only where none has a real package: a
    folder that happens to be called `nki` is a namespace package to Python, and no Neuron SDK.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A spec for an aliased name, else None."""
        if fullname not in ALIASES:
            return None
        for spec in _other_specs(LastResortFinder, fullname, path, target):
            if spec.origin is not None:
                return spec
        if not _is_for_importer(fullname):
            return None
        # importlib needs the two methods of AliasLoader, not its base class.
        loader = AliasLoader(fullname, ALIASES[fullname])
        return ModuleSpec(
            fullname,
            loader,  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
            is_package=True,
        )

    def find_distributions(self, context: Any = None) -> Iterable[Distribution]:
        """The distribution of an alias, where its import would be answered; else none."""
        name = str(getattr(context, "name", None)).replace("-", "_").lower()
        if name not in DISTRIBUTIONS:
            return ()
        for finder in sys.meta_path:
            find = getattr(finder, "find_distributions", None)
            if find is not None and not isinstance(finder, LastResortFinder) and [*find(context)]:
                return ()
        if name not in sys.modules and not _is_for_importer(name):
            return ()
        return (_distribution(name),)


class FollowedLoader:
    """Loads a module as its own loader does, and then imports the module `following`."""

    def __init__(self, own: Any, following: str) -> None:
        self._own = own
        self._following = following

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def exec_module(self, module: ModuleType) -> None:
        """Runs the module, and imports what follows it."""
        from importlib import import_module  # noqa: PLC0415  start-up pays for what stands above

        self._own.exec_module(module)
        import_module(self._following)


class ClusterFinder:
    """Adds a cluster to those that JAX knows, as soon as JAX has them.

    `jax.distributed.initialize()` looks for one before it loads any plugin. In processes that have
    none of AWS's variables this finder is not there.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of `CLUSTERS`, whose loader also imports `CLUSTER`; None for other modules."""
        if fullname != CLUSTERS:
            return None
        spec = next(_other_specs(ClusterFinder, fullname, path, target), None)
        if spec is not None and spec.loader is not None:
            spec.loader = FollowedLoader(spec.loader, CLUSTER)  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue]
        return spec


def install() -> None:
    """Put the finders in place once."""
    if not any(isinstance(finder, LastResortFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, LastResortFinder())
        if os.environ.get(PROCESSES):
            sys.meta_path.insert(0, ClusterFinder())


install()
