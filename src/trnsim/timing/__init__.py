"""Estimated time: from a program to its timeline, with an uncertainty interval."""

from trnsim.timing.compiler_policy import Policy, policy_of
from trnsim.timing.order import Order, choose_order
from trnsim.timing.schedule import EnginePlacement, Schedule, recorded_placements, replay
from trnsim.timing.timeline import Span, Timeline, timelines

__all__ = [
    "EnginePlacement",
    "Order",
    "Policy",
    "Schedule",
    "Span",
    "Timeline",
    "choose_order",
    "policy_of",
    "recorded_placements",
    "replay",
    "timelines",
]
