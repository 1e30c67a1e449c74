"""Options of `nki.jit` and checks of the compiler."""

from __future__ import annotations

from trnsim.behaviours.behaviour import Behaviour

ROWS: tuple[Behaviour, ...] = ()
"""The rows of this family."""
