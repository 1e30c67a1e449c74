"""`neuronxcc.nki`: the older generation of NKI (0.1), of which only `typing` exists here."""

from typing import Any

from trnsim.nki import typing
from trnsim.nki.absent import Absence, AbsentNames

__all__ = ["typing"]


def _explain(name: str) -> Absence | None:
    if name.startswith("__"):
        return None
    return Absence(
        f"neuronxcc.nki.{name} belongs to NKI 0.1, the older generation, which is not emulated yet",
        fix="migrate the kernel to `import nki` (0.2 and later)",
        source="nki/migration/index.rst",
    )


_ABSENT = AbsentNames(__name__, "neuronxcc.nki", _explain)


def __getattr__(name: str) -> Any:
    return _ABSENT.serve(name)
