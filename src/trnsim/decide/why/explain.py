"""Two answers explained: each time term by term, sources, conditions, inputs, other figures.

    sum over terms (new - old) = new median - old median

A log has no parts. Beside it a plan's parts stand as they are, and the whole difference is the term
"unexplained".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from trnsim.decide.difference import AnswerChange, difference
from trnsim.decide.why.times import COLLECTIVE, LAYER, Time
from trnsim.errors import BadInput

if TYPE_CHECKING:
    from trnsim.decide.why.answers import Answer

UNEXPLAINED: Final = "unexplained"
_FORWARD: Final = ("prefill", "decode", "encode")
"""Phases whose passes have terms in common."""
_ASIDE: Final = ("pareto", "searched")
"""What a search looked at besides its answer."""
_COVERED: Final[Mapping[str, tuple[str, ...]]] = {
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
"""Fields of an answer that its times are read from."""
_CANDIDATE_MS: Final = ".ms."
"""Part of the path of what a decision's times are read from."""
_INPUTS: Final[Mapping[str, tuple[str, ...]]] = {
    "chip": ("target", "platform"),
    "instance": ("instance",),
    "instances": ("instances",),
    "NeuronCores of a rank": ("lnc",),
    "tensor ranks": ("tensor_parallel_size", "layout.tensor"),
    "dtype": ("dtype", "layout.dtype"),
    "batch": ("batch", "layout.micro_batch"),
}
"""Inputs of answers of two commands, and the fields that they may have."""
_SHORT_DTYPES: Final = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


@dataclass(frozen=True)
class Term:
    """One cause of a time on both sides; None stands for one that a side does not have."""

    name: str
    old_s: float | None
    new_s: float | None
    change_s: float


@dataclass(frozen=True)
class Explained:
    """One time of both answers.

    Attributes:
        old: the first answer's.
        new: the second's.
        terms: the largest change first; the changes add up to that of the medians.
        sources: what the terms rest on, where that differs.
        conditions: what one side alone takes for granted: its old and new words.
    """

    old: Time
    new: Time
    terms: tuple[Term, ...]
    sources: tuple[AnswerChange, ...]
    conditions: tuple[tuple[str, ...], tuple[str, ...]]

    @property
    def ratio(self) -> float | None:
        """New median over old median."""
        return AnswerChange("", self.old.p50_s, self.new.p50_s).ratio

    @property
    def is_equal(self) -> bool:
        """Whether neither the time nor what it rests on differs."""
        is_moved = any(one.change_s for one in self.terms) or self.old.p50_s != self.new.p50_s
        return not (is_moved or self.sources or any(self.conditions))

    @property
    def only_old(self) -> tuple[str, ...]:
        """Terms that only the old time has."""
        return self._alone("old_s")

    @property
    def only_new(self) -> tuple[str, ...]:
        """Terms that only the new time has."""
        return self._alone("new_s")

    def _alone(self, side: str) -> tuple[str, ...]:
        if self.old.is_measured or self.new.is_measured:
            return ()
        other = "new_s" if side == "old_s" else "old_s"
        return tuple(
            one.name
            for one in self.terms
            if getattr(one, side) is not None and getattr(one, other) is None
        )

    @property
    def new_within(self) -> bool | None:
        """Whether the new median lies in the old P10 to P90; None where there is none."""
        return _within(self.new, self.old)

    @property
    def old_within(self) -> bool | None:
        """Whether the old median lies in the new P10 to P90; None where there is none."""
        return _within(self.old, self.new)


@dataclass(frozen=True)
class Why:
    """Two answers about one platform or workload, or about one and another.

    Attributes:
        name: of the platform or workload, or of both.
        times: each time that both have.
        inputs: inputs and choices that differ.
        figures: what else is predicted otherwise; of one command's answers alone.
        cost: ratios new to old of the price, the instances and the time that make up the cost.
    """

    name: str
    times: tuple[Explained, ...]
    inputs: tuple[AnswerChange, ...]
    figures: tuple[AnswerChange, ...]
    cost: Mapping[str, float]

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs."""
        return not (self.inputs or self.figures) and all(one.is_equal for one in self.times)


@dataclass(frozen=True)
class Comparison:
    """All answers of both sides.

    Attributes:
        kinds: the commands that gave them.
        whys: for each platform or workload that both answer for.
        only_old: names that only the first side has.
        only_new: names that only the second side has.
    """

    kinds: tuple[str, str]
    whys: tuple[Why, ...]
    only_old: tuple[str, ...]
    only_new: tuple[str, ...]


def explain(
    old: Mapping[str, Answer], new: Mapping[str, Answer], names: tuple[str, str] = ("A", "B")
) -> Comparison:
    """Why the answers `new` are not the answers `old`.

    One answer on each side is compared with the other, whatever they are about; several are
    matched by name.

    Raises:
        BadInput: nothing that both answer for, or no figure that both have.
    """
    pairs = _pairs(old, new, names)
    try:
        whys = tuple(why(one, two, names) for one, two in pairs)
    except RecursionError as error:
        raise BadInput(f"{' or '.join(names)} is nested too deeply to be an answer") from error
    taken_old, taken_new = ({pair[side].name for pair in pairs} for side in (0, 1))
    return Comparison(
        (next(iter(old.values())).kind, next(iter(new.values())).kind),
        whys,
        tuple(name for name in old if name not in taken_old),
        tuple(name for name in new if name not in taken_new),
    )


def _pairs(
    old: Mapping[str, Answer], new: Mapping[str, Answer], names: tuple[str, str]
) -> list[tuple[Answer, Answer]]:
    shared = [(old[name], new[name]) for name in old if name in new]
    if shared:
        return shared
    if len(old) == len(new) == 1:
        return [(next(iter(old.values())), next(iter(new.values())))]
    raise BadInput(
        f"{names[0]} answers for {', '.join(old)}, {names[1]} for {', '.join(new)}",
        fix="give two answers that have a platform or workload in common, or one each",
    )


def why(old: Answer, new: Answer, names: tuple[str, str] = ("A", "B")) -> Why:
    """Why one answer is not another.

    Raises:
        BadInput: they have no figure in common.
    """
    name = old.name if old.name == new.name else f"{old.name} and {new.name}"
    pairs = _times(old, new)
    found = tuple(_explained(one, two) for one, two in pairs)
    if old.kind == new.kind:
        covered = _COVERED.get(old.kind, ()) if found else ()
        whole = difference(name, old.plain, new.plain, (*_ASIDE, *covered))
        inputs = (*whole.causes, *_sizes(pairs), *_options(old, new, whole.causes))
        figures = tuple(one for one in whole.figures if not (found and _CANDIDATE_MS in one.path))
        return Why(name, found, inputs, figures, whole.cost)
    if not found:
        raise BadInput(
            f"{names[0]} is of trnsim {old.kind} ({_told(old)}), {names[1]} of trnsim {new.kind} "
            f"({_told(new)}): no figure in common",
            fix="compare two times of a model, or two answers of one command",
        )
    return Why(name, found, _inputs(old, new, pairs), _figures(old, new), {})


def _told(one: Answer) -> str:
    return ", ".join(each.name for each in one.times) or "no time"


def _times(old: Answer, new: Answer) -> list[tuple[Time, Time]]:
    """Times of both that are compared: of one name, else of one phase, else passes."""
    named = {one.name: one for one in new.times}
    pairs = [(one, named[one.name]) for one in old.times if one.name in named]
    if pairs or not (old.times and new.times):
        return pairs
    by_phase = [
        (one, two) for one in old.times for two in new.times if _is_alike(one, two) and one.phase
    ]
    is_logged = old.is_measured or new.is_measured
    if by_phase:
        return by_phase if is_logged else [by_phase[-1]]
    first = old.times[-1], new.times[-1]
    is_pass = not is_logged and (
        all(one.phase in _FORWARD for one in first) or "" in (first[0].phase, first[1].phase)
    )
    return [first] if is_pass and COLLECTIVE not in (first[0].phase, first[1].phase) else []


def _is_alike(one: Time, two: Time) -> bool:
    """Whether two times are of one phase; a log's first answer is also that of an encoder."""
    if one.is_measured or two.is_measured:
        if LAYER in (one.name, two.name):
            return False
        phases = {"prefill" if each.phase == "encode" else each.phase for each in (one, two)}
        return len(phases) == 1
    return one.phase == two.phase


def _explained(old: Time, new: Time) -> Explained:
    return Explained(old, new, _terms(old, new), _sources(old, new), _conditions(old, new))


def _terms(old: Time, new: Time) -> tuple[Term, ...]:
    """The terms, the largest change first and of equal ones the largest."""
    if old.is_measured or new.is_measured:
        found = _unexplained(old, new)
    else:
        found = []
        for name in dict.fromkeys((*old.parts_s, *new.parts_s)):
            one, two = old.parts_s.get(name), new.parts_s.get(name)
            found.append(Term(name, one, two, (two or 0.0) - (one or 0.0)))
    return tuple(sorted(found, key=_size))


def _unexplained(old: Time, new: Time) -> list[Term]:
    """The plan's parts, and what the log differs by."""
    plan, log = (new, old) if old.is_measured else (old, new)
    rest_s = log.p50_s - plan.p50_s
    if old.is_measured:
        found = [Term(name, None, time_s, 0.0) for name, time_s in plan.parts_s.items()]
        return [*found, Term(UNEXPLAINED, rest_s, None, -rest_s)]
    found = [Term(name, time_s, None, 0.0) for name, time_s in plan.parts_s.items()]
    return [*found, Term(UNEXPLAINED, None, rest_s, rest_s)]


def _size(one: Term) -> tuple[float, float]:
    return -abs(one.change_s), -max(abs(one.old_s or 0.0), abs(one.new_s or 0.0))


def _sources(old: Time, new: Time) -> tuple[AnswerChange, ...]:
    if old.is_measured or new.is_measured or set(old.sources.values()) == set(new.sources.values()):
        return ()
    if len(old.sources) == len(new.sources) == 1:
        (one,), (two,) = old.sources.values(), new.sources.values()
        return (AnswerChange("source", one, two),)
    pairs = [
        AnswerChange(name, old.sources.get(name), new.sources.get(name))
        for name in dict.fromkeys((*old.sources, *new.sources))
    ]
    return tuple(one for one in pairs if one.old != one.new)


def _conditions(old: Time, new: Time) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if old.is_measured or new.is_measured:
        return (), ()
    return (
        tuple(one for one in old.conditions if one not in new.conditions),
        tuple(one for one in new.conditions if one not in old.conditions),
    )


def _sizes(pairs: Sequence[tuple[Time, Time]]) -> list[AnswerChange]:
    """Sizes of a run's own steps that differ; other sizes are among an answer's inputs."""
    return [
        AnswerChange(f"{old.name}.{key}", old.sizes[key], new.sizes[key])
        for old, new in pairs
        if old.name.endswith(" step")
        for key in old.sizes
        if key in new.sizes and old.sizes[key] != new.sizes[key]
    ]


def _options(old: Answer, new: Answer, causes: Sequence[AnswerChange]) -> list[AnswerChange]:
    """Options of two commands that differ, and are not in the answers themselves."""
    if not (old.options and new.options):
        return []
    said = {one.path.rpartition(".")[2] for one in causes}
    return [
        AnswerChange(name, old.options.get(name), new.options.get(name))
        for name in dict.fromkeys((*old.options, *new.options))
        if old.options.get(name) != new.options.get(name)
        and name.lstrip("-").replace("-", "_") not in said
        and name != "--on"
    ]


def _inputs(
    old: Answer, new: Answer, pairs: Sequence[tuple[Time, Time]]
) -> tuple[AnswerChange, ...]:
    """Inputs that the answers of two commands have in common."""
    if old.is_measured or new.is_measured:
        return ()
    one, two = (
        {**_known(answer.plain), **time.sizes}
        for answer, time in zip((old, new), pairs[0], strict=True)
    )
    return tuple(
        AnswerChange(key, one[key], two[key]) for key in one if key in two and one[key] != two[key]
    )


def _known(plain: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of an answer under the names that all commands' have here."""
    found = {}
    for name, paths in _INPUTS.items():
        values = [_at(plain, path) for path in paths]
        value = next((one for one in values if isinstance(one, str | int)), None)
        if value is not None:
            found[name] = value
    if "chip" in found:
        found["chip"] = str(found["chip"]).partition(".")[0]
    if "dtype" in found:
        found["dtype"] = _SHORT_DTYPES.get(str(found["dtype"]), found["dtype"])
    return found


def _at(plain: Mapping[str, Any], path: str) -> object:
    found: Any = plain
    for key in path.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _figures(old: Answer, new: Answer) -> tuple[AnswerChange, ...]:
    """Figures of a log beside the plan's; of two commands, none but times are compared."""
    if not (old.is_measured or new.is_measured):
        return ()
    plans = new if old.is_measured else old
    shared = [key for key in old.plain if key in new.plain]
    before, after = ({key: one.plain[key] for key in shared} for one in (old, new))
    return difference("", before, after, _COVERED.get(plans.kind, ())).figures


def _within(one: Time, other: Time) -> bool | None:
    if other.interval_s is None:
        return None
    low, high = other.interval_s
    return bool(low <= one.p50_s <= high) and not math.isnan(one.p50_s)
