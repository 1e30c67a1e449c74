"""The end of a step: its program is cut, and its closures run.

Operators of this device have run already, so a step is also a synchronization
(`trnsim.device.steps`), as `torch.neuron.synchronize()`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from trnsim.device.steps import steps
from trnsim.xla.cuts.cutting import SYNC, cuts
from trnsim.xla.seeds import seeds


class StepClosures:
    """The closures of this step."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque()

    def add(self, closure: Callable[..., Any], args: tuple[Any, ...]) -> None:
        """Run `closure(*args)` at the end of this step."""
        self._waiting.append((closure, args))

    def end_step(self, kind: str = SYNC) -> None:
        """End the step, and run its closures in order; those that they add wait for the next.

        `kind` is the kind of the cut, in reports.
        """
        cuts.end_step(kind)
        steps.synchronizes()
        seeds.end_step()
        waiting, self._waiting = self._waiting, deque()
        while waiting:
            closure, args = waiting.popleft()
            closure(*args)


step_closures: Final = StepClosures()
"""The steps of this process."""
