"""Speed of a workload on an instance, by the planner's models; the same for here and there."""

from trnsim.decide.times.predict import Predictor, SpeedAnswer
from trnsim.decide.times.speed import Speed

__all__ = ["Predictor", "Speed", "SpeedAnswer"]
