"""Warnings of AWS's entry points, in place of errors of `trnsim.run`.

AWS's simulator runs some code that AWS's compiler refuses, and kernels with data races between two
cores, whose results on the chip are undefined. `trnsim.run` refuses both. AWS's entry points, such
as `nki.simulate`, run both here and warn, so that public test suites pass.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Final

from trnsim.behaviours import Version
from trnsim.behaviours.language import LIST_ARGUMENTS
from trnsim.context_values import context_value
from trnsim.errors import IllegalInstruction, SourceLine
from trnsim.user_warnings import warn, warn_of_all


class RaceWarning(UserWarning):
    """Two cores accessed the same bytes of shared HBM without a barrier, and at least one wrote."""


class SimulatorOnlyWarning(UserWarning):
    """Warning of code that AWS's simulator runs, but its compiler and `trnsim.run` refuse."""


class DynamicLoopWarning(UserWarning):
    """nl.dynamic_range or Python's own use of a register, which NKI 0.6 deprecates."""


class OlderFormWarning(UserWarning):
    """Warning of a form of an older version of NKI, which AWS's documents no longer have."""


_is_simulator: ContextVar[bool] = ContextVar("trnsim_nki_is_simulator", default=False)


is_simulator: Final = _is_simulator.get
"""True if a kernel runs as on AWS's simulator: a function that takes no frame."""


def as_simulator(is_on: bool) -> AbstractContextManager[None]:
    """Context in which kernels run as on AWS's simulator, if `is_on`: `refuse_or_warn` warns."""
    return context_value(_is_simulator, is_on)


def refuse_or_warn(reason: str, fix: str, source: str, line: SourceLine | None = None) -> None:
    """Raise `IllegalInstruction`; on AWS's simulator warn instead.

    The line is the user's innermost unless `line` names another.

    Raises:
        IllegalInstruction: unless the kernel runs as on AWS's simulator.
    """
    if not _is_simulator.get():
        raise IllegalInstruction(reason, fix=fix, source=source, line=line)
    text = f"{reason}\n  AWS's simulator runs it, the chip does not.\n  fix: {fix}"
    warn(f"{text}\n  source: {source}", SimulatorOnlyWarning, line)


def refuse_list(name: str, value: object, version: Version) -> None:
    """Refuse a list as a kernel's argument, or nested in an argument.

    Attributes of `NKIObject` may be lists. NKI 0.2 takes lists. AWS does not say whether 0.7 takes
    them again.

    Args:
        name: path of the value in the arguments, such as "sizes[0]".
        value: the value.
        version: the kernel's version of NKI.

    Raises:
        IllegalInstruction: unless the kernel runs as on AWS's simulator, which is plain Python.
    """
    if isinstance(value, list) and "." not in name and not version.follows(LIST_ARGUMENTS):
        refuse_or_warn(
            f"argument `{name}` is a list under {version}, where {LIST_ARGUMENTS.otherwise}; "
            f"legal: a tuple, and a list {LIST_ARGUMENTS.span}",
            f"pass tuple({name})",
            LIST_ARGUMENTS.source,
        )


def refuse_lists_of_defaults(
    signature: inspect.Signature,
    names: Collection[str],
    version: Version,
    line: SourceLine | None,
) -> None:
    """Refuse a list, also within tuples and dicts, as the default of a parameter without argument.

    Args:
        signature: the kernel's signature.
        names: the parameters with an argument.
        version: the kernel's version of NKI.
        line: the line of the kernel's definition.

    Raises:
        IllegalInstruction: unless the kernel runs as on AWS's simulator.
    """
    if version.follows(LIST_ARGUMENTS):
        return
    for name, parameter in signature.parameters.items():
        if name not in names and _holds_list(parameter.default):
            refuse_or_warn(
                f"the default of `{name}` has a list under {version}, where "
                f"{LIST_ARGUMENTS.otherwise}; legal: tuples, and lists {LIST_ARGUMENTS.span}",
                f"write the default as a tuple: {name}=(...)",
                LIST_ARGUMENTS.source,
                line,
            )


def _holds_list(value: object) -> bool:
    """True for a list, and for a tuple or dict with one at any depth."""
    if isinstance(value, dict):
        value = tuple(value.values())
    return isinstance(value, list) or (isinstance(value, tuple) and any(map(_holds_list, value)))


def warn_of_races(races: tuple[str, ...]) -> None:
    """Warn once of all races of a run."""
    warn_of_all(races, RaceWarning)
