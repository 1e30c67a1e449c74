"""Differences of two answers: times term by term, then sources, conditions, inputs and figures."""

from trnsim.decide.why.answers import KINDS, PlanAnswer, answers
from trnsim.decide.why.explain import AnswerComparison, AnswerDifference, TimeDifference, explain
from trnsim.decide.why.logs import AnswersOrLog, comparable_answers

__all__ = [
    "KINDS",
    "AnswerComparison",
    "AnswerDifference",
    "AnswersOrLog",
    "PlanAnswer",
    "TimeDifference",
    "answers",
    "comparable_answers",
    "explain",
]
