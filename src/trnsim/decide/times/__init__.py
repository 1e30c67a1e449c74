"""How fast a workload goes on an instance, by the planner's models; the same for here and there."""

from trnsim.decide.times.predict import Answer, Predictor
from trnsim.decide.times.speed import Speed

__all__ = ["Answer", "Predictor", "Speed"]
