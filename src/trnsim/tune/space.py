"""The settings of a kernel: every combination of the values that its file declares.

A setting is a tuple of numbers, the index of a value for each parameter, so that processes and
files exchange it whatever the values are.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, Final

from trnsim.errors import BadInput
from trnsim.gate.kernel_file import PARAMETERS, KernelCase
from trnsim.gate.source import source_digest
from trnsim.runs import Launchable

SCHEDULE: Final = "schedule"
"""The name of a parameter for `kernel.with_schedule`: its values are lists of edges, each of which
orders two instructions.

If the kernel has a keyword of this name, the parameter is that keyword instead."""

Setting = tuple[int, ...]


@dataclass(frozen=True)
class Parameter:
    """A parameter and the values that are tried.

    Attributes:
        name: its keyword.
        default: the index of the value that a call without it has.
    """

    name: str
    values: tuple[Any, ...]
    default: int

    def text(self, index: int) -> str:
        """A value in words."""
        value = self.values[index]
        name = getattr(value, "name", None)
        return name if isinstance(name, str) else str(value)


@dataclass(frozen=True)
class SettingSpace:
    """The settings of a kernel."""

    case: KernelCase
    parameters: tuple[Parameter, ...]

    def __len__(self) -> int:
        return prod(len(parameter.values) for parameter in self.parameters)

    @property
    def default(self) -> Setting:
        """The setting of a call that names no parameter."""
        return tuple(parameter.default for parameter in self.parameters)

    def settings(self) -> Iterator[Setting]:
        """All settings in order."""
        return product(*(range(len(parameter.values)) for parameter in self.parameters))

    def values(self, setting: Setting) -> dict[str, Any]:
        """The values of a setting by name."""
        pairs = zip(self.parameters, setting, strict=True)
        return {parameter.name: parameter.values[index] for parameter, index in pairs}

    def text(self, setting: Setting) -> str:
        """A setting in words: ``tile=256, depth=2``."""
        pairs = zip(self.parameters, setting, strict=True)
        return ", ".join(f"{parameter.name}={parameter.text(index)}" for parameter, index in pairs)

    def kernel_for(self, setting: Setting) -> tuple[Launchable, dict[str, Any]]:
        """The kernel, and the keywords of its call, for a setting."""
        values = self.values(setting)
        kernel: Any = self.case.kernel
        if SCHEDULE in values and SCHEDULE not in _keywords(kernel):
            edges = values.pop(SCHEDULE)
            kernel = kernel.with_schedule(edges) if edges else kernel
        return kernel, {**self.case.arguments.keywords, **values}

    def digest(self) -> str:
        """A digest of the kernel's source, its inputs and its parameters."""
        values = {parameter.name: parameter.values for parameter in self.parameters}
        arguments = self.case.arguments.with_keywords({"values that are tried": values})
        return source_digest(self.case.kernel, arguments)


def space_of(case: KernelCase) -> SettingSpace:
    """The settings of a kernel of a file.

    Raises:
        BadInput: the file declares no parameters, or a parameter that the kernel does not take.
    """
    declarations = case.parameters
    if not declarations:
        raise BadInput(
            f"{case.file} declares no parameters of {case.name}: it has no {case.name}{PARAMETERS}",
            fix="give the kernel keywords with defaults, and the file their values: "
            f"{case.name}{PARAMETERS} = {{'tile': [128, 256, 512]}}",
        )
    parameters = tuple(
        _parameter(case, name, tuple(values)) for name, values in declarations.items()
    )
    space = SettingSpace(case, parameters)
    if len(space) == 1:
        raise BadInput(
            f"{case.file}: the parameters of {case.name} have only one combination: "
            f"{space.text(space.default)}",
            fix="give a parameter several values",
        )
    return space


def _parameter(case: KernelCase, name: str, values: tuple[Any, ...]) -> Parameter:
    keywords = _keywords(case.kernel)
    if name == SCHEDULE and name not in keywords:
        return _with_default(name, values, next((edges for edges in values if not edges), None))
    if name not in keywords:
        raise BadInput(
            f"{case.file}: {case.name}{PARAMETERS} has {name!r}, which {case.name} does not take; "
            f"legal: {', '.join(keywords) or 'none'}",
            fix=f"add the keyword {name} with a default to the kernel",
        )
    default = case.arguments.keywords.get(name, keywords[name])
    if default is inspect.Parameter.empty:
        return Parameter(name, values, 0)
    return _with_default(name, values, default)


def _with_default(name: str, values: tuple[Any, ...], default: Any) -> Parameter:
    """A parameter with a default, which is added before the values if it is not among them."""
    if default in values:
        return Parameter(name, values, values.index(default))
    return Parameter(name, (default, *values), 0)


def _keywords(kernel: Any) -> Mapping[str, Any]:
    """The keywords that a kernel takes, and their defaults."""
    signature = inspect.signature(kernel.function)
    return {name: parameter.default for name, parameter in signature.parameters.items()}
