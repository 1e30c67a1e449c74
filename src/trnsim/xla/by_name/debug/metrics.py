"""`torch_xla.debug.metrics`, which programs call `met`: counters of what truly is counted.

That is MarkStep. Compilations and executions are refused by name, as operators run at once.
"""

from __future__ import annotations

from typing import Final

from trnsim.xla.absent_names import absent
from trnsim.xla.steps import MARK_STEP, step_closures

__path__: Final[list[str]] = []  # as in xla_model


def counter_names() -> list[str]:
    """The names of the counters that have counted."""
    return [MARK_STEP] if step_closures.ended else []


def counter_value(name: str) -> int | None:
    """The value of a counter that has counted; None for any other, as in torch_xla."""
    return step_closures.ended if name in counter_names() else None


def clear_counters() -> None:
    """Set the counters to zero."""
    step_closures.ended = 0


def clear_all() -> None:
    """Set the counters to zero."""
    clear_counters()


__getattr__ = absent("torch_xla.debug.metrics", __name__)
