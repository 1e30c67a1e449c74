"""Semaphore updates of a program: what one engine tells another.

An instruction that another engine waits for raises, when it is complete, the semaphore between the
two engines. These are the waits that the timeline charges `engine_semaphore_s` for; the semaphores
that a compiler would assign, and share, are not known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from trnsim.program import Program
    from trnsim.timing.occupancy import Integers


class Waits(NamedTuple):
    """Who waits for whom: instruction `later[i]` for `earlier[i]`, in issue order."""

    earlier: Integers
    later: Integers


def waits(program: Program) -> Waits:
    """Every dependence of the program."""
    counts = [len(program.predecessors(index)) for index in range(len(program))]
    earlier = [found for index in range(len(program)) for found in program.predecessors(index)]
    return Waits(np.array(earlier, np.int64), np.repeat(np.arange(len(program)), counts))


def updates(program: Program) -> Waits:
    """The dependences between engines, once for each engine that waits for an instruction."""
    found = waits(program)
    engines = np.array([checked.engine.value for checked in program.checked], np.int64)
    engine_of = engines[np.array(program.which, np.int64)]
    between = engine_of[found.earlier] != engine_of[found.later]
    earlier, later = found.earlier[between], found.later[between]
    key = earlier * (engines.max(initial=0) + 1) + engine_of[later]
    _, first = np.unique(key, return_index=True)
    return Waits(earlier[first], later[first])


def count_updates(program: Program) -> int:
    """How many semaphore updates the program makes."""
    return len(updates(program).earlier)
