"""A file of kernels: its module, its kernels, and its declarations for them.

For a kernel `softmax` the file may have:

    softmax_inputs      its arguments, or a function that returns them: a tuple, a dict of keywords
                        or a single array
    softmax_reference   a function of the same arguments that returns the expected results
    softmax_tolerance   largest error as a share of the largest value of the reference
    softmax_parameters  keyword -> values that `trnsim tune` tries

None of these imports trnsim, so that the file runs where a chip is.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from trnsim.errors import BadInput, EmulatorError, SourceLine
from trnsim.gate.values import is_tolerance
from trnsim.runs import Launchable
from trnsim.user_traceback import users_text

INPUTS: Final = "_inputs"
NOTHING_TO_CHECK: Final = "launches no kernel, and has inputs for none"
"""Finding of a file without inputs that launches nothing, such as a library of kernels."""
REFERENCE: Final = "_reference"
TOLERANCE: Final = "_tolerance"
PARAMETERS: Final = "_parameters"


@dataclass(frozen=True)
class Arguments:
    """The arguments of a call.

    Attributes:
        positional: the arguments by position.
        keywords: the arguments by keyword.
    """

    positional: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def with_keywords(self, keywords: Mapping[str, Any]) -> Arguments:
        """These arguments, with further keywords; equal names are replaced."""
        return Arguments(self.positional, {**self.keywords, **keywords})


@dataclass(frozen=True)
class KernelCase:
    """A kernel of a file, with the file's declarations for it.

    Attributes:
        file: the file as the user named it.
        reference: a function of the same arguments; None where the file has none.
        tolerance: largest relative error; None for the default.
        parameters: keyword -> values that may be tried; empty where the file declares none.
    """

    file: Path
    name: str
    kernel: Launchable
    arguments: Arguments
    reference: Callable[..., Any] | None = None
    tolerance: float | None = None
    parameters: Mapping[str, Sequence[Any]] = field(default_factory=dict[str, Sequence[Any]])


def module_of(file: Path) -> ModuleType:
    """The module of a Python file, run anew.

    Raises:
        BadInput: it is no Python file, calls sys.exit, or raises an error.
    """
    name = _module_name(file)
    specification = importlib.util.spec_from_file_location(name, file)
    if specification is None or specification.loader is None:
        raise BadInput(f"{file} is not a Python file", fix="name a file that ends in .py")
    module = importlib.util.module_from_spec(specification)
    _module_names.add(name)
    sys.modules[name] = module
    sys.path.insert(0, str(file.parent))
    try:
        specification.loader.exec_module(module)
    except SystemExit as error:
        raise BadInput(
            f"{file} ended itself with sys.exit({error.code!r}) before its kernel was called",
            fix='put what runs the program behind if __name__ == "__main__":',
        ) from error
    except EmulatorError:
        raise
    except Exception as error:
        raise BadInput(
            f"{file} does not run:\n{users_text(error)}",
            fix="run it by itself: python " + str(file),
        ) from error
    finally:
        with suppress(ValueError):  # the file took it out
            sys.path.remove(str(file.parent))
    return module


_module_names: Final[set[str]] = set()
"""Names in `sys.modules` of files that were run."""


def _module_name(file: Path) -> str:
    """The name for a file's module: its stem, unless another module has that name already."""
    loaded_module = sys.modules.get(file.stem)
    if loaded_module is None or file.stem in _module_names:
        return file.stem
    is_same_file = Path(getattr(loaded_module, "__file__", None) or "").resolve() == file.resolve()
    return file.stem if is_same_file else f"file {file.stem}"


def kernels_of(module: ModuleType) -> dict[str, Launchable]:
    """The kernels of a module by name, in the order of its text."""
    return {name: value for name, value in vars(module).items() if isinstance(value, Launchable)}


def kernel_named(file: Path, module: ModuleType, name: str | None) -> Launchable:
    """The kernel `name` of a file; without a name, its only kernel.

    Raises:
        BadInput: it has no such kernel, or several and no name was given.
    """
    kernels = kernels_of(module)
    if name is None and len(kernels) == 1:
        return next(iter(kernels.values()))
    if name in kernels:
        return kernels[name]
    option = "no --kernel was given" if name is None else f"--kernel {name}"
    raise BadInput(
        f"{option}, and {file} has the kernels: {', '.join(kernels) or 'none'}",
        fix="name one of them with --kernel"
        if kernels
        else "decorate a function of the file with @nki.jit",
    )


def cases(file: Path, module: ModuleType, name: str | None = None) -> list[KernelCase]:
    """The kernels of a file that have inputs, in the order of its text; only `name`, if given.

    Raises:
        BadInput: there is no kernel `name`, it has no inputs, or a declaration is not legal.
    """
    if name is not None:
        kernel_named(file, module, name)
        if not hasattr(module, name + INPUTS):
            raise BadInput(
                f"{file} does not say on what {name} runs: it has no {name}{INPUTS}",
                fix=f"define {name}{INPUTS}(), which returns a tuple of the kernel's arguments",
            )
    kernels = kernels_of(module)
    _refuse_strays(file, module, kernels)
    return [
        _case(file, module, kernel_name, kernel)
        for kernel_name, kernel in kernels.items()
        if hasattr(module, kernel_name + INPUTS) and name in (None, kernel_name)
    ]


def _case(file: Path, module: ModuleType, name: str, kernel: Launchable) -> KernelCase:
    reference = getattr(module, name + REFERENCE, None)
    if reference is not None and not callable(reference):
        raise BadInput(
            f"{file}: {name}{REFERENCE} is {type(reference).__name__}; legal: a function of the "
            "kernel's arguments",
            fix=f"def {name}{REFERENCE}(...): return what the kernel should return",
        )
    tolerance = getattr(module, name + TOLERANCE, None)
    if not (tolerance is None or is_tolerance(tolerance)):
        raise BadInput(
            f"{file}: {name}{TOLERANCE} is {tolerance!r}; legal: a number from 0 to below 1, the "
            "share of the largest value of the reference"
        )
    return KernelCase(
        file,
        name,
        kernel,
        _arguments(file, name, getattr(module, name + INPUTS)),
        reference,
        tolerance,
        parameters_of(file, module, name),
    )


def _arguments(file: Path, name: str, declaration: Any) -> Arguments:
    value = _result_of(file, name + INPUTS, declaration) if callable(declaration) else declaration
    if isinstance(value, dict):
        return Arguments((), value)
    if isinstance(value, tuple | list):
        return Arguments(tuple(value), {})
    if hasattr(value, "shape"):
        return Arguments((value,), {})
    raise BadInput(
        f"{file}: {name}{INPUTS} gives {type(value).__name__}; legal: a tuple of the kernel's "
        "arguments, a dict of its keywords, or one array"
    )


def _result_of(file: Path, name: str, function: Callable[[], Any]) -> Any:
    """The result of a function of the user's file.

    Raises:
        BadInput: it raises an error, or calls sys.exit.
    """
    try:
        return function()
    except EmulatorError:
        raise
    except (Exception, SystemExit) as error:
        raise BadInput(
            f"{file}: {name}() does not run to its end:\n{users_text(error)}",
            fix=f"{name} takes no arguments, and returns those of the kernel",
        ) from error


def parameters_of(file: Path, module: ModuleType, name: str) -> dict[str, tuple[Any, ...]]:
    """The parameters that a file declares for a kernel: keyword -> distinct values.

    Raises:
        BadInput: they are no mapping of keywords to several values.
    """
    declaration = getattr(module, name + PARAMETERS, {})
    legal = "legal: a dict of the kernel's keywords to lists of values: {'tile': [128, 256, 512]}"
    if not isinstance(declaration, Mapping):
        raise BadInput(
            f"{file}: {name}{PARAMETERS} is {type(declaration).__name__}; {legal}",
            fix="name the keyword to which the values belong",
        )
    parameters: dict[str, tuple[Any, ...]] = {}
    for keyword, values in declaration.items():
        if isinstance(values, str) or not isinstance(values, Sequence | range) or not len(values):
            raise BadInput(
                f"{file}: {name}{PARAMETERS}[{keyword!r}] is {values!r}; {legal}",
                fix=f"give {keyword} several values, or leave it out to keep its default",
            )
        distinct: list[Any] = []
        try:
            distinct += (value for value in values if value not in distinct)
        except ValueError as error:
            raise BadInput(
                f"{file}: {name}{PARAMETERS}[{keyword!r}] has arrays, of which none can be told "
                f"from another; {legal}",
                fix="give tuples, and make the arrays in the kernel",
            ) from error
        parameters[str(keyword)] = tuple(distinct)
    return parameters


def _refuse_strays(file: Path, module: ModuleType, kernels: Mapping[str, Launchable]) -> None:
    """Refuse declarations whose name, perhaps misspelled, is no kernel of the file.

    Raises:
        BadInput: there is such a declaration.
    """
    for attribute in vars(module):
        for ending in (REFERENCE, PARAMETERS):
            name = attribute.removesuffix(ending)
            has_both = hasattr(module, name + INPUTS) and name != attribute
            if has_both and name not in kernels:
                raise BadInput(
                    f"{file} has {attribute} and {name}{INPUTS}, and no kernel {name}; it has: "
                    f"{', '.join(kernels) or 'none'}",
                    fix=f"name them after a kernel, or decorate {name} with @nki.jit",
                    line=SourceLine(str(file), 1),
                )
