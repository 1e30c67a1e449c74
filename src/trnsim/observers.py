"""Factories of observers of runs, which lower rooms call without an import of the observers.

`trnsim` fills the list when it is imported, and loads only this module for it. A room calls a
factory when there is something to observe: the observer's own room is loaded then.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing is not needed, as in `trnsim`
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

run_observer_factories: list[Callable[[], Any]] = []
"""Factories for runs of kernels: each makes a `trnsim.runs.RunObserver`."""
