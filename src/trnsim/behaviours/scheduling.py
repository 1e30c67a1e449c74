"""Scheduling: dependences that a kernel adds."""

from __future__ import annotations

from trnsim.behaviours.behaviour import Behaviour

ROWS: tuple[Behaviour, ...] = ()
"""The rows of this family."""
