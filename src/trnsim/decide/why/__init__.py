"""Why two answers differ: times term by term, then sources, conditions, inputs and figures."""

from trnsim.decide.why.answers import KINDS, Answer, answers
from trnsim.decide.why.explain import Comparison, Explained, Why, explain
from trnsim.decide.why.logs import Given, with_logs

__all__ = [
    "KINDS",
    "Answer",
    "Comparison",
    "Explained",
    "Given",
    "Why",
    "answers",
    "explain",
    "with_logs",
]
