"""Measured logs in the form of a command's answer, to be compared with a plan of the same run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from trnsim.calibrate.logs.measured import Load, RunLog, Training
from trnsim.decide.why.answers import PlanAnswer
from trnsim.decide.why.times import STEP, TPOT, TTFT, Time, Values
from trnsim.errors import BadInput

_RANK_AXES: Final = ("tensor", "pipeline", "data", "context")
"""Axes of a layout whose product is the number of its ranks."""

AnswersOrLog: TypeAlias = "Mapping[str, PlanAnswer] | RunLog"
"""Answers of trnsim's commands by name, or a log."""


def comparable_answers(
    old: AnswersOrLog, new: AnswersOrLog, names: tuple[str, str]
) -> tuple[Mapping[str, PlanAnswer], Mapping[str, PlanAnswer]]:
    """Both sides of a comparison as answers; one side may be a log.

    Args:
        old: answers by name, or a log, of the first side.
        new: answers by name, or a log, of the second side.
        names: names of the sides, for messages.

    Raises:
        BadInput: both are logs, or several plans stand beside a log.
    """
    if isinstance(old, RunLog):
        if isinstance(new, RunLog):
            raise BadInput(
                f"{names[0]} and {names[1]} are measured logs, which have no parts; legal: one log",
                fix="give a plan beside it; trnsim pilot read compares the logs of two sides",
            )
        return _log_answer(old, new, names[1]), new
    if isinstance(new, RunLog):
        return old, _log_answer(new, old, names[0])
    return old, new


def _log_answer(
    log: RunLog, plans: Mapping[str, PlanAnswer], name: str
) -> Mapping[str, PlanAnswer]:
    if len(plans) > 1:
        raise BadInput(
            f"{name} answers for {', '.join(plans)}; legal beside a log: one answer",
            fix="name one platform with --on",
        )
    (plan,) = plans.values()
    return {log.path: answer_of_log(log, plan)}


def answer_of_log(log: RunLog, plan: PlanAnswer) -> PlanAnswer:
    """A log as an answer, to be compared with a plan of the same run.

    If the log has only rates (tokens a second of a rank), the time of a step is the number of
    tokens that a rank has in a step of the plan, divided by that rate.

    Raises:
        BadInput: the plan is of another kind of run, or of another batch.
    """
    run = log.run
    if isinstance(run, Training):
        times = _step_times(log, run, plan)
        fields: dict[str, Any] = {}
    else:
        times = _latencies(run)
        fields = {"output_tokens_per_s": run.output_tokens_per_s}
        for name, values in (("ttft", run.ttft_s), ("tpot", run.tpot_s)):
            fields |= {f"{name}_p{percentile}_s": value for percentile, value in values.items()}
    return PlanAnswer(f"log ({log.format})", log.path, fields, times, is_measured=True)


def _step_times(log: RunLog, run: Training, plan: PlanAnswer) -> tuple[Time, ...]:
    if plan.kind != "plan train":
        raise BadInput(
            f"{log.path} has steps of a training run, {plan.name} is of trnsim {plan.kind}; legal "
            "beside it: an answer of trnsim plan train",
            fix="plan the same run: trnsim plan train CONFIG.json --json",
        )
    layout = Values(plan.fields, plan.name).object_at("layout")
    batch = layout.number("global_batch")
    if run.sequences is not None and run.sequences != batch:
        raise BadInput(
            f"{log.path}: {run.sequences} sequences a step, and the plan has {batch:g}; legal: "
            "equal",
            fix=f"plan with --global-batch {run.sequences}",
        )
    step_s = run.step_s
    if step_s is None:
        step_s = _tokens_of_rank(layout) / (run.tokens_per_s or math.inf)
    return (Time(STEP, "train", step_s, is_measured=True),)


def _tokens_of_rank(layout: Values) -> float:
    """Tokens that one rank has in a step."""
    ranks = math.prod(layout.number(axis) for axis in _RANK_AXES)
    tokens = layout.number("global_batch") * layout.number("sequence")
    if not ranks > 0:
        raise BadInput(f"{layout.where} has {ranks:g} ranks; legal: from 1 on")
    return tokens / ranks


def _latencies(run: Load) -> tuple[Time, ...]:
    latencies: Mapping[str, tuple[str, dict[int, float]]] = {
        TTFT: ("prefill", run.ttft_s),
        TPOT: ("decode", run.tpot_s),
    }
    return tuple(
        Time(name, phase, values[50], is_measured=True)
        for name, (phase, values) in latencies.items()
        if values
    )
