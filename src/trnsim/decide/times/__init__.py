"""Speed of a workload on an instance type, by the planner's models, today's as a candidate's."""

from trnsim.decide.times.predict import Predictor, SpeedAnswer
from trnsim.decide.times.speed import Speed

__all__ = ["Predictor", "Speed", "SpeedAnswer"]
