"""Program -> timeline: engines, dependencies, intervals."""

from trnsim.timing.schedule import Scheduler, replay
from trnsim.timing.timeline import Span, Timeline

__all__ = ["Scheduler", "Span", "Timeline", "replay"]
