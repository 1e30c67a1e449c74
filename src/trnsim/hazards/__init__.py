"""What goes wrong between instructions: races between cores."""

from trnsim.hazards.races import RaceDetector

__all__ = ["RaceDetector"]
