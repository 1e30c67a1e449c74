"""Time limits: a program that cannot end within a given time is not issued to its end.

An engine executes one instruction after another, and transfers share the joint time of the DMA
engines, so a program takes at least the sum of the initiation intervals of each engine. That sum is
known as the instructions are issued, before they are scheduled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from math import inf
from typing import Final

from trnsim.isa import Engine
from trnsim.program.context import CoreContext

_ROUNDING: Final = 1 + 1e-6
"""Factor on a limit: a sum of intervals may exceed the scheduled time by rounding."""


class TimeLimitExceededError(Exception):
    """The program being issued takes longer than its limit."""


@contextmanager
def limit_time(core: CoreContext, limit_s: float) -> Generator[None]:
    """Context in which instructions are issued to `core`, whose program may take `limit_s`.

    Raises:
        TimeLimitExceededError: as soon as the issued instructions take longer. A program that
            raises no error may take longer too.
    """
    if limit_s == inf:
        yield
        return
    work = _EngineWork(core)
    report = core.report_progress

    def check_progress(issued: int) -> None:
        if report is not None:
            report(issued)
        work.refuse_beyond(limit_s)

    core.report_progress = check_progress
    try:
        yield
        work.refuse_beyond(limit_s)
    finally:
        core.report_progress = report


class _EngineWork:
    """The sum of the initiation intervals on each engine."""

    def __init__(self, core: CoreContext) -> None:
        self._core = core
        self._counted = core.issued()
        self._interval_s: dict[Engine, float] = {}

    def refuse_beyond(self, limit_s: float) -> None:
        """Raise `TimeLimitExceededError` if the instructions so far take longer than `limit_s`."""
        program, interval_s = self._core.program, self._interval_s
        for which, times in Counter(program.which[self._counted :]).items():
            checked = program.checked[which]
            engine = checked.engine
            interval_s[engine] = interval_s.get(engine, 0.0) + times * checked.cost.interval_s
        self._counted = len(program)
        if max(interval_s.values(), default=0.0) > limit_s * _ROUNDING:
            raise TimeLimitExceededError
