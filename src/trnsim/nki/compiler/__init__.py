"""`nki.compiler`: only its frontend, which runs the kernel; AWS alone has the other stages."""

from __future__ import annotations

from typing import Any

from trnsim.errors import NotModelled
from trnsim.nki.compiler import frontend

__all__ = ["frontend"]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise NotModelled(
        f"nki.compiler.{name} belongs to the vendor's compiler and is not emulated",
        fix="run the kernel without it",
        source="nki.compiler",
    )
