"""The version of NKI that a kernel follows: the user's choice, or one that its file implies.

The first of these decides: `trnsim.run(..., nki=)` or `--nki`, a line ``# nki: 0.4`` in the
kernel's file, the variable TRNSIM_NKI, AWS's NKI_COMPILER_FRONTEND=custom (0.6), and the version
that is found from the forms of the file.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import Final, NamedTuple

from trnsim.behaviours.version import LATEST, VERSIONS, Version, version_named
from trnsim.context_values import context_value
from trnsim.errors import BadInput

VERSION_VARIABLE: Final = "TRNSIM_NKI"
FRONTEND_VARIABLE: Final = "NKI_COMPILER_FRONTEND"
"""AWS's variable, which in NKI 0.7 brings the front end of 0.6 back: no scalars, dynamic loops."""
_FRONTENDS: Final = {"custom": "0.6", "parser": "0.6", "tracer": None}


class VersionChoice(NamedTuple):
    """A version and the reason for it.

    Attributes:
        reason: the option or variable that names it ("--nki"), or a form of the file and its line.
        is_chosen: false if it was derived from the forms of a file, or is the default.
        is_simulated: true if AWS's simulator of that version is emulated, not its compiler.
    """

    version: Version
    reason: str
    is_chosen: bool
    is_simulated: bool = False

    @property
    def note(self) -> str:
        """The version and its reason, as a line; "" for the latest version by default."""
        if self.version is LATEST and not self.is_chosen:
            return ""
        return f"{self.version}: {self.reason}"


NOT_CHOSEN: Final = VersionChoice(LATEST, "the latest", is_chosen=False)
"""The latest, by default."""

_pinned: ContextVar[VersionChoice | None] = ContextVar("trnsim_nki_version", default=None)


def pinned(version: str | Version | None, asked_by: str) -> AbstractContextManager[None]:
    """A context in which kernels follow a version; None changes nothing.

    Args:
        version: the version or its name.
        asked_by: the option or argument that names it, for the error.

    Raises:
        BadInput: no emulated version has that name.
    """
    if version is None:
        return nullcontext()
    if not isinstance(version, Version):
        version = version_named(version, asked_by)
    return context_value(_pinned, VersionChoice(version, asked_by, is_chosen=True))


def asked_version() -> VersionChoice | None:
    """The version of a surrounding `pinned` block or of TRNSIM_NKI; None if there is neither.

    Raises:
        BadInput: for a version that does not exist.
    """
    return _pinned.get() or _variable_choice()


def choice_of(
    read_marker: Callable[[], VersionChoice | None], infer_version: Callable[[], VersionChoice]
) -> VersionChoice:
    """The version that a kernel follows now.

    Args:
        read_marker: returns the version of its file's marker, if it has one.
        infer_version: derives the version from the forms of its file; called where nobody chose.

    Raises:
        BadInput: for a version that does not exist.
    """
    return _pinned.get() or read_marker() or _variable_choice() or infer_version()


def _variable_choice() -> VersionChoice | None:
    name = os.environ.get(VERSION_VARIABLE)
    if name:
        asked_by = f"${VERSION_VARIABLE}"
        return VersionChoice(version_named(name, asked_by), asked_by, is_chosen=True)
    frontend = os.environ.get(FRONTEND_VARIABLE)
    if not frontend:
        return None
    if frontend not in _FRONTENDS:
        raise BadInput(
            f"${FRONTEND_VARIABLE} is {frontend!r}; legal: {', '.join(_FRONTENDS)}",
            fix=f"unset it, or set {FRONTEND_VARIABLE}=custom for the front end of NKI 0.6",
            source="release notes of NKI 0.7; announce-nki-specialization-change",
        )
    version = _FRONTENDS[frontend]
    if version is None:
        return None
    return VersionChoice(VERSIONS[version], f"${FRONTEND_VARIABLE}={frontend}", is_chosen=True)
