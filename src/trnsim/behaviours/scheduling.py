"""Scheduling: dependences that a kernel adds."""

from __future__ import annotations

from typing import Final

from trnsim.behaviours.behaviour import Behaviour

_SOURCE = "nki.isa.NkiInstruction, depends_on"

DEPENDS_ON: Final = Behaviour(
    name="depends-on",
    since="0.6",
    rule="instructions return an NkiInstruction, whose depends_on adds a semaphore",
    otherwise="instructions return None",
    instead='name both instructions and call kernel.with_schedule([("consumer", "producer")])',
    source=_SOURCE,
)
DEPENDENCY_KIND: Final = Behaviour(
    name="depends-on-kind",
    since="0.7",
    rule="depends_on takes a kind, and warns where there is none",
    otherwise="every depends_on is a semaphore and takes no kind",
    instead="leave kind out: a semaphore is what nisa.dependency.runtime is",
    source=_SOURCE,
)
