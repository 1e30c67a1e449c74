"""`neuronxcc.nki.language` beside NKI 0.2 and 0.3: `nki.language`, and `static_cast` on the host.

Public tests of NKI 0.2 round their references with the older name (nki-library 2.28, test_rope.py).
"""

from __future__ import annotations

from typing import Any

from trnsim.nki import language
from trnsim.nki.aliases.neuron_dtypes import static_cast

__all__ = ["static_cast"]


def __getattr__(name: str) -> Any:
    return getattr(language, name)


def __dir__() -> list[str]:
    return [*dir(language), "static_cast"]
