"""Warnings of AWS's entry points, in the place of errors of `trnsim.run`.

AWS's simulator runs some things that its compiler refuses, and races of two cores, whose results on
the chip are undefined. `trnsim.run` refuses both. `nki.simulate` and the other entry points, which
give no times and under which public test suites pass, run them and warn. They also warn where
tensors exceed SBUF, as `trnsim.run` does in `Run.overfull`, or PSUM.
"""

from __future__ import annotations

import warnings
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from trnsim.errors import IllegalInstruction, SourceLine, user_line


class RaceWarning(UserWarning):
    """Two cores touched the same bytes of shared HBM, one of them writing, with no barrier."""


class SpillWarning(UserWarning):
    """Live tensors exceed SBUF or PSUM; AWS's compiler moves some to HBM and back.

    Source: memory-hierarchy-overview.rst, the note on the capacity of on-chip memory.
    """


class SimulatorOnlyWarning(UserWarning):
    """AWS's simulator runs this, but its compiler and `trnsim.run` refuse it."""


_is_lenient: ContextVar[bool] = ContextVar("trnsim_nki_is_lenient", default=False)
_shown: dict[str | tuple[str, type[Warning], int], int] = {}
"""Python's registry of warnings already shown, by message, category and line."""


def is_simulator() -> bool:
    """Whether a kernel runs as on AWS's simulator."""
    return _is_lenient.get()


@contextmanager
def as_simulator(is_lenient: bool) -> Generator[None]:
    """Inside, `refuse_or_warn` warns where `is_lenient`."""
    token = _is_lenient.set(is_lenient)
    try:
        yield
    finally:
        _is_lenient.reset(token)


def refuse_or_warn(reason: str, fix: str, source: str, line: SourceLine | None = None) -> None:
    """Raise `IllegalInstruction`; on AWS's simulator warn and go on.

    The line is the user's innermost unless `line` names another.

    Raises:
        IllegalInstruction: unless the kernel runs as on AWS's simulator.
    """
    if not _is_lenient.get():
        raise IllegalInstruction(reason, fix=fix, source=source, line=line)
    text = f"{reason}\n  AWS's simulator runs it, the chip does not.\n  fix: {fix}"
    _warn(f"{text}\n  source: {source}", SimulatorOnlyWarning, line)


def refuse_list(name: str, value: object) -> None:
    """Refuse a list that is argument `name` of a kernel or inside it; objects may hold lists.

    Raises:
        IllegalInstruction: unless the kernel runs as on AWS's simulator, which is plain Python.
    """
    if isinstance(value, list) and "." not in name:
        refuse_or_warn(
            f"argument `{name}` is a list; legal: a tuple",
            f"pass tuple({name})",
            "nki/migration/index.rst, Replace list kernel arguments with tuples",
        )


def warn_of_races(races: tuple[str, ...]) -> None:
    """Warn once of all races that a run found."""
    _warn_once(races, RaceWarning)


def warn_of_spills(overfull: tuple[str, ...]) -> None:
    """Warn once of all tensors that exceeded SBUF or PSUM in a run."""
    _warn_once(overfull, SpillWarning)


def _warn_once(found: tuple[str, ...], category: type[Warning]) -> None:
    if len(found) > 0:
        more = f"\n  and {len(found) - 1} more" if len(found) > 1 else ""
        _warn(found[0] + more, category)


def _warn(message: str, category: type[Warning], line: SourceLine | None = None) -> None:
    line = line or user_line()
    file, number = (line.file, line.line) if line is not None else (__name__, 1)
    warnings.warn_explicit(message, category, file, number, registry=_shown)
