"""Hazards: data races between cores, and dependences between iterations of parallel loops."""

from trnsim.hazards.loop_carried import LoopWatcher
from trnsim.hazards.races import RaceDetector

__all__ = ["LoopWatcher", "RaceDetector"]
