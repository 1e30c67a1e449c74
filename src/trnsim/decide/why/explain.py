"""Differences of two answers: of times term by term, of sources, conditions, inputs and figures.

    sum over terms (new - old) = new median - old median

A log has no parts. If one side is a log, the terms are the plan's parts, each with a change of 0,
and a term "unexplained" with the whole difference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trnsim.decide.difference import AnswerChange, difference
from trnsim.decide.why.answers import PlanAnswer
from trnsim.decide.why.times import COLLECTIVE, LAYER, Time
from trnsim.errors import BadInput

UNEXPLAINED: Final = "unexplained"
_FORWARD_PHASES: Final = ("prefill", "decode", "encode")
"""Phases whose passes have the same terms."""
_SEARCH_FIELDS: Final = ("pareto", "searched")
"""Fields about a planner's search, which are not compared."""
_TIME_FIELDS_BY_KIND: Final[Mapping[str, tuple[str, ...]]] = {
    "compile": ("estimate",),
    "plan infer": ("estimate", "latency_p50_s"),
    "plan train": ("estimate", "step_s", "parts_s"),
    "plan serve": (
        *("decode_step", "prefill_step", "token_parts_s", "prompt_parts_s"),
        *("ttft_p50_s", "tpot_p50_s", "times", "sources"),
    ),
    "plan layer": ("answer",),
    "plan collective": ("time_s", "latency_s", "bytes_s"),
}
"""Fields from which an answer's times are read; their values are compared as times."""
_CANDIDATE_MS: Final = ".ms."
"""Text in the path of each time of a decision's candidate; such figures are compared as times."""
_PATHS_BY_INPUT: Final[Mapping[str, tuple[str, ...]]] = {
    "chip": ("target", "platform"),
    "instance": ("instance",),
    "instances": ("instances",),
    "NeuronCores of a rank": ("lnc",),
    "tensor ranks": ("tensor_parallel_size", "layout.tensor"),
    "dtype": ("dtype", "layout.dtype"),
    "batch": ("batch", "layout.micro_batch"),
}
"""Inputs that answers of different commands have in common, each with its possible paths."""
_SHORT_DTYPES: Final = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


@dataclass(frozen=True)
class TimeTerm:
    """A cause of a time, with its seconds on each side.

    Attributes:
        name: name of the cause.
        old_s: seconds in the old time; None if it does not have the cause.
        new_s: seconds in the new time; None if it does not have the cause.
        change_s: contribution to the difference of the medians.
    """

    name: str
    old_s: float | None
    new_s: float | None
    change_s: float


@dataclass(frozen=True)
class TimeDifference:
    """Difference between a time of the first answer and the same time of the second.

    Attributes:
        terms: the largest change first; the changes add up to the change of the median.
        sources: changed sources of terms.
        conditions: conditions of only the old time, and of only the new time.
    """

    old: Time
    new: Time
    terms: tuple[TimeTerm, ...]
    sources: tuple[AnswerChange, ...]
    conditions: tuple[tuple[str, ...], tuple[str, ...]]

    @property
    def ratio(self) -> float | None:
        """New median over old median."""
        return AnswerChange("", self.old.p50_s, self.new.p50_s).ratio

    @property
    def is_equal(self) -> bool:
        """True if neither the time nor its sources and conditions differ."""
        is_moved = any(term.change_s for term in self.terms) or self.old.p50_s != self.new.p50_s
        return not (is_moved or self.sources or any(self.conditions))

    @property
    def only_old(self) -> tuple[str, ...]:
        """Terms that only the old time has."""
        return self._names_alone("old_s")

    @property
    def only_new(self) -> tuple[str, ...]:
        """Terms that only the new time has."""
        return self._names_alone("new_s")

    def _names_alone(self, side: str) -> tuple[str, ...]:
        if self.old.is_measured or self.new.is_measured:
            return ()
        opposite = "new_s" if side == "old_s" else "old_s"
        return tuple(
            term.name
            for term in self.terms
            if getattr(term, side) is not None and getattr(term, opposite) is None
        )

    @property
    def is_new_in_old_interval(self) -> bool | None:
        """True if the new median lies in the old P10 to P90; None without an interval."""
        return _is_within(self.new, self.old)

    @property
    def is_old_in_new_interval(self) -> bool | None:
        """True if the old median lies in the new P10 to P90; None without an interval."""
        return _is_within(self.old, self.new)


@dataclass(frozen=True)
class AnswerDifference:
    """Difference of two answers, about one platform or workload or about two.

    Attributes:
        name: name of the platform or workload, or of both.
        times: differences of the times that both answers have.
        inputs: inputs and choices that differ.
        figures: other predictions that differ; only between answers of one command.
        cost: ratios new / old of the factors of the cost: "price", "instances" and "time".
    """

    name: str
    times: tuple[TimeDifference, ...]
    inputs: tuple[AnswerChange, ...]
    figures: tuple[AnswerChange, ...]
    cost: Mapping[str, float]

    @property
    def is_equal(self) -> bool:
        """True if nothing differs."""
        return not (self.inputs or self.figures) and all(time.is_equal for time in self.times)


@dataclass(frozen=True)
class AnswerComparison:
    """Differences of all answers of both sides.

    Attributes:
        kinds: commands of the answers.
        differences: differences for each platform or workload that both sides answer for.
        only_old: names on the first side alone.
        only_new: names on the second side alone.
    """

    kinds: tuple[str, str]
    differences: tuple[AnswerDifference, ...]
    only_old: tuple[str, ...]
    only_new: tuple[str, ...]


def explain(
    old: Mapping[str, PlanAnswer],
    new: Mapping[str, PlanAnswer],
    names: tuple[str, str] = ("A", "B"),
) -> AnswerComparison:
    """Differences between the answers `new` and the answers `old`.

    A single answer on each side is compared with the other, whatever their subjects; several are
    matched by name.

    Args:
        old: answers of the first side, by name.
        new: answers of the second side, by name.
        names: names of the sides, for messages.

    Raises:
        BadInput: no platform, workload or figure is on both sides.
    """
    pairs = _answer_pairs(old, new, names)
    try:
        differences = tuple(answer_difference(left, right, names) for left, right in pairs)
    except RecursionError as error:
        raise BadInput(f"{' or '.join(names)} is nested too deeply to be an answer") from error
    shared_old, shared_new = ({pair[side].name for pair in pairs} for side in (0, 1))
    return AnswerComparison(
        (next(iter(old.values())).kind, next(iter(new.values())).kind),
        differences,
        tuple(name for name in old if name not in shared_old),
        tuple(name for name in new if name not in shared_new),
    )


def _answer_pairs(
    old: Mapping[str, PlanAnswer], new: Mapping[str, PlanAnswer], names: tuple[str, str]
) -> list[tuple[PlanAnswer, PlanAnswer]]:
    shared_pairs = [(old[name], new[name]) for name in old if name in new]
    if shared_pairs:
        return shared_pairs
    if len(old) == len(new) == 1:
        return [(next(iter(old.values())), next(iter(new.values())))]
    raise BadInput(
        f"{names[0]} answers for {', '.join(old)}, {names[1]} for {', '.join(new)}",
        fix="give two answers that have a platform or workload in common, or one each",
    )


def answer_difference(
    old: PlanAnswer, new: PlanAnswer, names: tuple[str, str] = ("A", "B")
) -> AnswerDifference:
    """Difference between two answers.

    Raises:
        BadInput: no figure is in both answers.
    """
    name = old.name if old.name == new.name else f"{old.name} and {new.name}"
    pairs = _time_pairs(old, new)
    times = tuple(
        TimeDifference(*pair, _terms(*pair), _source_changes(*pair), _conditions_alone(*pair))
        for pair in pairs
    )
    if old.kind == new.kind:
        covered_fields = _TIME_FIELDS_BY_KIND.get(old.kind, ()) if times else ()
        changes = difference(name, old.fields, new.fields, (*_SEARCH_FIELDS, *covered_fields))
        inputs = (
            *changes.causes,
            *_size_changes(pairs),
            *_option_changes(old, new, changes.causes),
        )
        figures = tuple(
            figure for figure in changes.figures if not (times and _CANDIDATE_MS in figure.path)
        )
        return AnswerDifference(name, times, inputs, figures, changes.cost)
    if not times:
        old_names, new_names = _time_names(old), _time_names(new)
        raise BadInput(
            f"{names[0]} is of trnsim {old.kind} ({old_names}), {names[1]} of trnsim {new.kind} "
            f"({new_names}): no figure in common",
            fix="compare two times of a model, or two answers of one command",
        )
    return AnswerDifference(
        name, times, _input_changes(old, new, pairs), _log_figure_changes(old, new), {}
    )


def _time_names(answer: PlanAnswer) -> str:
    return ", ".join(time.name for time in answer.times) or "no time"


def _time_pairs(old: PlanAnswer, new: PlanAnswer) -> list[tuple[Time, Time]]:
    """Pairs of times to compare: by equal names, else by equal phases, else the last ones."""
    by_name = {time.name: time for time in new.times}
    pairs = [(time, by_name[time.name]) for time in old.times if time.name in by_name]
    if pairs or not (old.times and new.times):
        return pairs
    by_phase = [
        (left, right)
        for left in old.times
        for right in new.times
        if _is_alike(left, right) and left.phase
    ]
    is_logged = old.is_measured or new.is_measured
    if by_phase:
        return by_phase if is_logged else [by_phase[-1]]
    last_pair = old.times[-1], new.times[-1]
    is_pass = not is_logged and (
        all(time.phase in _FORWARD_PHASES for time in last_pair)
        or "" in (last_pair[0].phase, last_pair[1].phase)
    )
    return (
        [last_pair]
        if is_pass and COLLECTIVE not in (last_pair[0].phase, last_pair[1].phase)
        else []
    )


def _is_alike(left: Time, right: Time) -> bool:
    """True if two times are of one phase; beside a log, an encoder's pass counts as a prefill."""
    if left.is_measured or right.is_measured:
        if LAYER in (left.name, right.name):
            return False
        phases = {"prefill" if time.phase == "encode" else time.phase for time in (left, right)}
        return len(phases) == 1
    return left.phase == right.phase


def _terms(old: Time, new: Time) -> tuple[TimeTerm, ...]:
    """Terms of a time, the largest change first, and of equal changes the largest term."""
    if old.is_measured or new.is_measured:
        terms = _log_terms(old, new)
    else:
        terms = []
        for name in dict.fromkeys((*old.parts_s, *new.parts_s)):
            old_s, new_s = old.parts_s.get(name), new.parts_s.get(name)
            terms.append(TimeTerm(name, old_s, new_s, (new_s or 0.0) - (old_s or 0.0)))
    return tuple(sorted(terms, key=_largest_first))


def _log_terms(old: Time, new: Time) -> list[TimeTerm]:
    """Parts of the plan, and the difference to the log."""
    plan, log = (new, old) if old.is_measured else (old, new)
    rest_s = log.p50_s - plan.p50_s
    if old.is_measured:
        parts = [TimeTerm(name, None, time_s, 0.0) for name, time_s in plan.parts_s.items()]
        return [*parts, TimeTerm(UNEXPLAINED, rest_s, None, -rest_s)]
    parts = [TimeTerm(name, time_s, None, 0.0) for name, time_s in plan.parts_s.items()]
    return [*parts, TimeTerm(UNEXPLAINED, None, rest_s, rest_s)]


def _largest_first(term: TimeTerm) -> tuple[float, float]:
    return -abs(term.change_s), -max(abs(term.old_s or 0.0), abs(term.new_s or 0.0))


def _source_changes(old: Time, new: Time) -> tuple[AnswerChange, ...]:
    if old.is_measured or new.is_measured or set(old.sources.values()) == set(new.sources.values()):
        return ()
    if len(old.sources) == len(new.sources) == 1:
        (old_source,), (new_source,) = old.sources.values(), new.sources.values()
        return (AnswerChange("source", old_source, new_source),)
    pairs = [
        AnswerChange(name, old.sources.get(name), new.sources.get(name))
        for name in dict.fromkeys((*old.sources, *new.sources))
    ]
    return tuple(change for change in pairs if change.old != change.new)


def _conditions_alone(old: Time, new: Time) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if old.is_measured or new.is_measured:
        return (), ()
    return (
        tuple(condition for condition in old.conditions if condition not in new.conditions),
        tuple(condition for condition in new.conditions if condition not in old.conditions),
    )


def _size_changes(pairs: Sequence[tuple[Time, Time]]) -> list[AnswerChange]:
    """Changed sizes of a server's steps; other sizes are compared as inputs of the answers."""
    return [
        AnswerChange(f"{old.name}.{key}", old.sizes[key], new.sizes[key])
        for old, new in pairs
        if old.name.endswith(" step")
        for key in old.sizes
        if key in new.sizes and old.sizes[key] != new.sizes[key]
    ]


def _option_changes(
    old: PlanAnswer, new: PlanAnswer, causes: Sequence[AnswerChange]
) -> list[AnswerChange]:
    """Changed options of the commands that are not among the changed inputs of the answers."""
    if not (old.options and new.options):
        return []
    field_names = {cause.path.rpartition(".")[2] for cause in causes}
    return [
        AnswerChange(name, old.options.get(name), new.options.get(name))
        for name in dict.fromkeys((*old.options, *new.options))
        if old.options.get(name) != new.options.get(name)
        and name.lstrip("-").replace("-", "_") not in field_names
        and name != "--on"
    ]


def _input_changes(
    old: PlanAnswer, new: PlanAnswer, pairs: Sequence[tuple[Time, Time]]
) -> tuple[AnswerChange, ...]:
    """Changed inputs, among the inputs that answers of different commands have in common."""
    if old.is_measured or new.is_measured:
        return ()
    old_inputs, new_inputs = (
        {**_common_inputs(answer.fields), **time.sizes}
        for answer, time in zip((old, new), pairs[0], strict=True)
    )
    return tuple(
        AnswerChange(key, old_inputs[key], new_inputs[key])
        for key in old_inputs
        if key in new_inputs and old_inputs[key] != new_inputs[key]
    )


def _common_inputs(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs of an answer, under names that are common to all commands."""
    inputs = {}
    for name, paths in _PATHS_BY_INPUT.items():
        values = [_value_at(plain, path) for path in paths]
        value = next((value for value in values if isinstance(value, str | int)), None)
        if value is not None:
            inputs[name] = value
    if "chip" in inputs:
        inputs["chip"] = str(inputs["chip"]).partition(".")[0]
    if "dtype" in inputs:
        inputs["dtype"] = _SHORT_DTYPES.get(str(inputs["dtype"]), inputs["dtype"])
    return inputs


def _value_at(plain: Mapping[str, Any], path: str) -> object:
    value: Any = plain
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _log_figure_changes(old: PlanAnswer, new: PlanAnswer) -> tuple[AnswerChange, ...]:
    """Changed figures between a log and a plan; answers of two commands share only times."""
    if not (old.is_measured or new.is_measured):
        return ()
    plans = new if old.is_measured else old
    shared_keys = [key for key in old.fields if key in new.fields]
    old_fields, new_fields = (
        {key: answer.fields[key] for key in shared_keys} for answer in (old, new)
    )
    return difference("", old_fields, new_fields, _TIME_FIELDS_BY_KIND.get(plans.kind, ())).figures


def _is_within(time: Time, reference: Time) -> bool | None:
    if reference.interval_s is None:
        return None
    low, high = reference.interval_s
    return bool(low <= time.p50_s <= high) and not math.isnan(time.p50_s)
