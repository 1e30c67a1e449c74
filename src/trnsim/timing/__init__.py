"""Program -> timeline: engines, dependencies, intervals."""

from trnsim.timing.policy import Policy
from trnsim.timing.schedule import Scheduler, replay, replay_together
from trnsim.timing.timeline import Span, Timeline

__all__ = ["Policy", "Scheduler", "Span", "Timeline", "replay", "replay_together"]
