"""The end of a step: its program is cut, and its closures run.

Operators of this device have run already, so the end of a step also counts as a synchronization
with the device (`trnsim.device.steps`), like `torch.neuron.synchronize()`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from trnsim.device.program_line import program_line
from trnsim.device.steps import steps
from trnsim.errors import BadInput, SourceLine
from trnsim.user_traceback import explain
from trnsim.xla.cuts.cutting import SYNC, cuts
from trnsim.xla.seeds import seeds

_Closure = tuple[Callable[..., Any], tuple[Any, ...], SourceLine | None]
"""A function, its arguments, and the line that added it."""


class ClosureRefused(BadInput, TypeError):
    """A step closure that cannot be called."""


class StepClosures:
    """The closures that wait for the end of the present step."""

    def __init__(self) -> None:
        self._closures: deque[_Closure] = deque()

    def add(self, closure: Callable[..., Any], args: tuple[Any, ...]) -> None:
        """Run `closure(*args)` at the end of this step.

        Raises:
            ClosureRefused: for an object that is not callable, or arguments that are no tuple.
        """
        line = program_line()
        if not callable(closure):
            raise ClosureRefused(
                f"a step closure {closure!r}; legal: a function",
                fix="xm.add_step_closure(function, args=(loss,))",
                line=line,
            )
        if not isinstance(args, tuple | list):  # pyright: ignore[reportUnnecessaryIsInstance]  of a user
            raise ClosureRefused(
                f"a step closure with args={args!r:.60}; legal: a tuple of arguments",
                fix="xm.add_step_closure(function, args=(loss,))",
                line=line,
            )
        self._closures.append((closure, (*args,), line))

    def end_step(self, kind: str = SYNC) -> None:
        """End the step, and run its closures in order; closures that they add wait for the next.

        `kind` is the kind of the cut, in reports.
        """
        cuts.end_step(kind)
        steps.note_synchronization()
        seeds.end_step()
        closures, self._closures = self._closures, deque()
        while closures:
            closure, args, line = closures.popleft()
            try:
                closure(*args)
            except Exception as error:
                explain(error, f"  in a step closure that was added at {line}")
                raise


step_closures: Final = StepClosures()
"""The closures that this process runs at the end of its present step."""
