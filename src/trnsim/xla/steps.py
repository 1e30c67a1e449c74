"""The end of a step: closures run, and the step is counted.

The real package runs the step's program here. Operators of this device have run already, so a step
is a synchronization (`trnsim.device.steps`), as `torch.neuron.synchronize()`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from trnsim.device.steps import steps
from trnsim.xla.seeds import seeds

MARK_STEP: Final = "MarkStep"
"""The counter of ended steps, by torch_xla's name."""


class StepClosures:
    """The closures of this step, and the number of steps that ended.

    Attributes:
        ended: number of steps that ended since the counters were cleared.
    """

    def __init__(self) -> None:
        self.ended = 0
        self._waiting: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque()

    def add(self, closure: Callable[..., Any], args: tuple[Any, ...]) -> None:
        """Run `closure(*args)` at the end of this step."""
        self._waiting.append((closure, args))

    def end_step(self) -> None:
        """End the step, and run its closures in order; those that they add wait for the next."""
        self.ended += 1
        steps.synchronizes()
        seeds.end_step()
        waiting, self._waiting = self._waiting, deque()
        while waiting:
            closure, args = waiting.popleft()
            closure(*args)


step_closures: Final = StepClosures()
"""The steps of this process."""
