"""`neuronxcc.nki`: the older generation of NKI (0.1), of which only `typing` exists here."""

from typing import Any

from trnsim.errors import NotModelled
from trnsim.nki import typing

__all__ = ["typing"]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise NotModelled(
        f"neuronxcc.nki.{name} belongs to NKI 0.1, the older generation, which is not emulated yet",
        fix="migrate the kernel to `import nki` (0.2 and later)",
        source="nki/migration/index.rst",
    )
