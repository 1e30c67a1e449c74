"""Estimated time: from a program to its timeline, with an uncertainty interval."""

from trnsim.timing.compiler_policy import Policy
from trnsim.timing.schedule import Scheduler, replay, replay_together
from trnsim.timing.timeline import Span, Timeline

__all__ = ["Policy", "Scheduler", "Span", "Timeline", "replay", "replay_together"]
