"""Names of `neuronxcc` that AWS's libraries import, and call only on request.

AWS's kernels below `neuronxcc.nki.kernels`, `_private_kernels` and `_pre_prod_kernels` are parts of
its compiler package, whose source is not public. NxD and NxD Inference import them, and names of
NKI 0.1, in modules that every program loads. So each such name can be imported, passed on and
subscripted as a grid, and a call of it is refused.

Source: neuronx-distributed fbac349 and neuronx-distributed-inference 4bcdc54, their imports.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType, SimpleNamespace
from typing import Any, Final

from trnsim.errors import NotModelled

ROOT: Final = "neuronxcc.nki"
CLOSED_PACKAGES: Final = ("kernels", "_private_kernels", "_pre_prod_kernels")
"""Packages of compiled kernels, which every importer gets."""
OLDER_MODULES: Final = ("language", "isa", "compiler")
"""Modules of NKI 0.1, which exist as closed modules for `LIBRARIES` alone."""
DECORATORS: Final = ("jit", "baremetal", "benchmark", "profile", "trace")
"""Decorators of `neuronxcc.nki`, which exist for `LIBRARIES` alone."""
LIBRARIES: Final = ("neuronx_distributed", "optimum.neuron")
"""Beginnings of the names of libraries that import NKI 0.1 without calling it."""


class ClosedName:
    """A name of a closed module, whose call is refused.

    Its attributes, and its subscripts (launch grids), are closed names too.

    Attributes:
        public: its full name in programs, such as "neuronxcc.nki.kernels.attention".
    """

    def __init__(self, public: str) -> None:
        self.public = public
        self.__name__ = self.__qualname__ = public.rpartition(".")[2]
        self.__doc__ = f"`{public}`, whose call is refused."

    def __getattr__(self, name: str) -> ClosedName:
        if name.startswith("__"):
            raise AttributeError(f"{self.public!r} has no attribute {name!r}")
        return ClosedName(f"{self.public}.{name}")

    def __getitem__(self, grid: object) -> ClosedName:
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClosedName) and other.public == self.public

    def __hash__(self) -> int:
        return hash(self.public)

    def __repr__(self) -> str:
        return f"<{self.public}, which is not modelled>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Nothing.

        Raises:
            NotModelled: always.
        """
        del args, kwargs
        part = self.public.removeprefix(f"{ROOT}.").partition(".")[0]
        raise NotModelled(
            f"{self.public} was called: {_REASON if part in CLOSED_PACKAGES else _OLDER_REASON}",
            fix=_FIX if part in CLOSED_PACKAGES else _OLDER_FIX,
            source="neuronx-distributed fbac349"
            if part in CLOSED_PACKAGES
            else "nki/migration/index.rst",
        )


class ClosedDecorator(ClosedName):
    """A decorator of NKI 0.1, as a library uses it: the kernel is closed, the decorator is not."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The kernel as a closed name, or the decorator with options."""
        del kwargs
        if args and callable(args[0]):
            name = getattr(args[0], "__qualname__", type(args[0]).__name__)
            return ClosedName(f"{ROOT}.{self.__name__} {name}")
        return self


_REASON: Final = "this kernel is a part of AWS's compiler package, whose source is not public"
_FIX: Final = "turn the kernel off in the model's configuration, so that plain operators run"
_OLDER_REASON: Final = "it belongs to NKI 0.1, the older generation, which is not emulated yet"
_OLDER_FIX: Final = "migrate the kernel to `import nki` (0.2 and later)"


class CollectivesConfig:
    """Replica groups and ring neighbours of ring attention, an argument of a closed kernel.

    NxD makes this object in every program, with or without ring attention.

    Attributes:
        rank_src_tgt_pairs: for each rank its group's ring, as pairs [source rank, target rank].
            Assumed: the ring follows the group's order. Only the closed kernel reads it.
    """

    def __init__(self, replica_groups: Sequence[Sequence[int]]) -> None:
        self.replica_groups = [list(group) for group in replica_groups]
        self.rank_src_tgt_pairs = {
            rank: [[*pair] for pair in zip(group, [*group[1:], *group[:1]], strict=True)]
            for group in self.replica_groups
            for rank in group
        }


class FlashConfig(SimpleNamespace):
    """Settings of a closed attention kernel, kept as they are given."""


_SETTINGS: Final[dict[str, Any]] = {
    f"{ROOT}._pre_prod_kernels.collectives.CollectivesConfig": CollectivesConfig,
    f"{ROOT}._private_kernels.collectives.CollectivesConfig": CollectivesConfig,
    f"{ROOT}.kernels.attention.FlashConfig": FlashConfig,
}
"""Classes of settings, which libraries make before they call a kernel, or without calling one."""


class ClosedModule(ModuleType):
    """A module of closed names."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        public = f"{self.__name__}.{name}"
        return _SETTINGS.get(public) or ClosedName(public)


class ClosedFinder(Loader):
    """The finder and loader of closed modules; their submodules are closed too."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a closed module, or None."""
        del path, target
        part = fullname.removeprefix(f"{ROOT}.").partition(".")[0]
        if not fullname.startswith(f"{ROOT}.") or not is_closed(part):
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """An empty module."""
        return ClosedModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: its names are made as they are asked for."""


def is_closed(part: str) -> bool:
    """True if a submodule of `neuronxcc.nki` is closed for the module that imports it.

    Args:
        part: first component of its name after "neuronxcc.nki.".
    """
    return part in CLOSED_PACKAGES or (part in OLDER_MODULES and is_for_library())


def is_for_library() -> bool:
    """True if the importing module, the first outside the import machinery, is of `LIBRARIES`."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  documented, to walk a stack
    while frame is not None and _is_of_imports(frame):
        frame = frame.f_back
    name = frame.f_globals.get("__name__", "") if frame is not None else ""
    return str(name).startswith(LIBRARIES)


def _is_of_imports(frame: FrameType) -> bool:
    """True for a frame of Python's import machinery or of this package."""
    file = frame.f_code.co_filename.replace("\\", "/")
    return "importlib" in file or "/nki/aliases/neuronxcc/" in file or file.endswith("/absent.py")
