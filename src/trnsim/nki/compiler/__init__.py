"""`nki.compiler`: configurations of kernels, and the frontend, which runs the kernel.

Later stages are AWS's alone.
"""

from __future__ import annotations

from typing import Any

from trnsim.absence import Absence
from trnsim.nki.absent import VersionedNames
from trnsim.nki.compiler import frontend
from trnsim.nki.configs import AddressRotation, CompileConfig, SpecializationConfig

__all__ = ["AddressRotation", "CompileConfig", "SpecializationConfig", "frontend"]


def _explain(name: str) -> Absence | None:
    if name.startswith("__"):
        return None
    return Absence(
        f"nki.compiler.{name} belongs to the vendor's compiler and is not emulated",
        fix="run the kernel without it",
        source="nki.compiler",
    )


_ABSENT = VersionedNames(__name__, "nki.compiler", _explain, "nki.compiler")
_ABSENT.withdraw(globals())


def __getattr__(name: str) -> Any:
    return _ABSENT.serve(name)


def __dir__() -> list[str]:
    return _ABSENT.names(globals())
