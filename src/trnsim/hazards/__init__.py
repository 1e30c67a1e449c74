"""What goes wrong between instructions: races between cores, dependences that a loop denies."""

from trnsim.hazards.loops import LoopWatcher
from trnsim.hazards.races import RaceDetector

__all__ = ["LoopWatcher", "RaceDetector"]
