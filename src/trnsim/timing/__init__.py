"""Estimated time: from a program to its timeline, with an uncertainty interval."""

from trnsim.timing.compiler_policy import Policy, policy_of
from trnsim.timing.order import Order, choose
from trnsim.timing.schedule import EnginePlacement, Schedule, recorded, replay
from trnsim.timing.timeline import Span, Timeline, timelines

__all__ = [
    "EnginePlacement",
    "Order",
    "Policy",
    "Schedule",
    "Span",
    "Timeline",
    "choose",
    "policy_of",
    "recorded",
    "replay",
    "timelines",
]
