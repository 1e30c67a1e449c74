"""Semaphore updates between the engines of a program.

When an instruction that another engine waits for is complete, it raises the semaphore between the
two engines. The timeline charges `engine_semaphore_s` for these waits; which semaphores a compiler
would assign and share is not known.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trnsim.profile.measures.busy import engines_of
from trnsim.program import Program
from trnsim.timing.occupancy import Integers


class Waits(NamedTuple):
    """Dependences: instruction `later[i]` waits for `earlier[i]`, in issue order."""

    earlier: Integers
    later: Integers


def waits(program: Program) -> Waits:
    """Every wait of the program; an order without a wait (`Program.follows`) is none."""
    counts = [len(program.waits_for(index)) for index in range(len(program))]
    earlier = [cause for index in range(len(program)) for cause in program.waits_for(index)]
    return Waits(np.array(earlier, np.int64), np.repeat(np.arange(len(program)), counts))


def updates(program: Program) -> Waits:
    """The dependences between engines: one for each instruction and engine that waits for it."""
    dependences, engine_of = waits(program), engines_of(program)
    crosses_engines = engine_of[dependences.earlier] != engine_of[dependences.later]
    earlier, later = dependences.earlier[crosses_engines], dependences.later[crosses_engines]
    key = earlier * (engine_of.max(initial=0) + 1) + engine_of[later]
    _, first = np.unique(key, return_index=True)
    return Waits(earlier[first], later[first])


def count_updates(program: Program) -> int:
    """The number of semaphore updates of a program."""
    return len(updates(program).earlier)
