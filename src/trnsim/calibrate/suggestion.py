"""The measurements of an hour that narrow the interval of an answer most.

    sigma after^2 = J C J' + error^2,  C = (H' H / error^2 + V^-1)^-1

J is the gradient of the answer by the effects of `trnsim.calibrate.fit`, H that of the candidate's
figures, V the effects' variances before, scaled so that the answer has the sigma that it states.
So it narrows only by what a candidate shares with it: chip, family, and causes in equal shares.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from trnsim.arch.catalogue import Instance, catalogue
from trnsim.calibrate.answers import INSTANCE_RATE, RATE, TIME, figures_of
from trnsim.calibrate.asking import QuestionAnswerer, figures_of_question
from trnsim.calibrate.fit import PRIOR_ERROR, PRIOR_SIGMAS, Effect, effects_of
from trnsim.calibrate.row import EstimatedFigure
from trnsim.calibrate.shrinkage import Array, shrink
from trnsim.errors import BadInput, EmulatorError
from trnsim.estimate.estimate import QUANTILES
from trnsim.facts import assumed
from trnsim.place.machine import Machine, machine
from trnsim.price import Quote, quote
from trnsim.workload.operators import Phase

HOURS: Final = assumed(1.0, "an hour: start, warm-up, and runs enough for a median")
_KINDS: Final = ("on_demand", "capacity_block")
"""Kinds of purchase by which an hour is priced: the first one that is public."""
_ON: Final = "--on"
_MODEL_COMMANDS: Final = (("plan", "serve"), ("plan", "train"), ("plan", "infer"))
"""Commands whose first argument is a model with layers."""
_MOST_SHOWN: Final = 6
_Z: Final = QUANTILES["p90"]
_OTHER_SIGMA: Final = assumed(
    0.10, "a model of another size or on another instance differs so within its family; no source"
)
"""One sigma that a candidate adds which is not the question itself."""


@dataclass(frozen=True)
class Experiment:
    """An experiment of an hour.

    Attributes:
        question: the command whose time is measured.
        instances: how many of them.
        usd: cost; None without a public price.
        price: the price in words; None without one.
        width: (P90 - P10) / P50 of the answer afterwards.
    """

    question: str
    instance: str
    instances: int
    hours: float
    usd: float | None
    price: str | None
    width: float


@dataclass(frozen=True)
class Suggestion:
    """Experiments for a question, the best first.

    Attributes:
        width: (P90 - P10) / P50 of its answer now.
        experiments: those that narrow it, the best first, without those that a cheaper one equals.
    """

    question: str
    chip: str
    family: str
    width: float
    experiments: tuple[Experiment, ...]


def suggest(question: str, ask: QuestionAnswerer) -> Suggestion:
    """The experiments that narrow the answer to a question most.

    Raises:
        BadInput: the question has no single answer whose time can be measured.
    """
    try:
        words = _words(question)
        text = shlex.join(words)
        schema, values = ask(text)
        figures = figures_of(schema, values)
    except EmulatorError as error:
        raise BadInput(f"--suggest {question!r}: {error.reason}", fix=error.fix) from error
    subject = figures.get(TIME) or next(iter(figures.values()))  # answers of one token have no TPOT
    sigma = math.log(subject.p90_s / subject.p10_s) / (2 * _Z)
    experiments = list(_experiments(words, subject, sigma, ask))
    experiments.sort(key=lambda each: (round(each.width, 2), each.usd is None, each.usd or 0.0))
    width = (subject.p90_s - subject.p10_s) / subject.time_s
    narrower_experiments = [each for each in experiments if each.width < width] or experiments
    worthwhile = [
        each for each in narrower_experiments if not _is_dearer(each, narrower_experiments)
    ]
    return Suggestion(text, subject.chip, subject.family, width, tuple(worthwhile[:_MOST_SHOWN]))


def _words(question: str) -> list[str]:
    """The words of a question without the program's name; ``--on=trn2`` is two words.

    Raises:
        BadInput: a quotation does not end.
    """
    try:
        words = shlex.split(question.removeprefix("trnsim "))
    except ValueError as error:
        raise BadInput(
            f"it cannot be parsed: {error}", fix="close each quotation, and end in no backslash"
        ) from None
    separate_words: list[str] = []
    for word in words:
        option, sign, value = word.partition("=")
        separate_words += [option, value] if sign and option.startswith("--") else [word]
    return separate_words


def _is_dearer(experiment: Experiment, other_experiments: Sequence[Experiment]) -> bool:
    """True if another one narrows the answer as much and costs less, or has a public price."""
    return any(
        other.usd is not None
        and (experiment.usd is None or other.usd < experiment.usd)
        and round(other.width, 2) <= round(experiment.width, 2)
        for other in other_experiments
    )


def _experiments(
    words: Sequence[str], subject: EstimatedFigure, sigma: float, ask: QuestionAnswerer
) -> Iterator[Experiment]:
    """The candidates that can be asked, with the width that each leaves."""
    own_question = shlex.join(words)
    instances = 1

    def ask_and_count(candidate: str) -> tuple[str, object]:
        nonlocal instances
        schema, values = ask(candidate)
        instances = values.get("instances", 1) if isinstance(values, Mapping) else 1
        return schema, values

    for candidate, instance in _candidates(words, subject):
        try:
            figures = figures_of_question(candidate, ask_and_count)
        except BadInput:  # such as a model that the smaller instance does not hold
            continue
        measured_figures = [
            figure for name, figure in figures.items() if name not in (RATE, INSTANCE_RATE)
        ]
        new_sigma = _sigma_after(
            subject, sigma, measured_figures, is_same=candidate == own_question
        )
        price = _price(instance)
        usd = None if price is None or price.usd_per_hour is None else price.usd_per_hour
        yield Experiment(
            candidate,
            instance,
            instances,
            float(HOURS),
            None if usd is None else float(HOURS) * instances * usd,
            None if price is None else str(price),
            2 * math.sinh(_Z * new_sigma),
        )


def _candidates(words: Sequence[str], subject: EstimatedFigure) -> Iterator[tuple[str, str]]:
    """The question itself, the same on other instances of the chip, a layer, a collective.

    Each with the name of the instance type that it is asked of.
    """
    on_machine = _machine(words, subject)
    yield shlex.join(words), on_machine.instance.name
    other_instances = [
        instance
        for instance in catalogue().instances.values()
        if instance.accelerator == on_machine.instance.accelerator
        and instance != on_machine.instance
    ]
    for instance in other_instances:
        yield shlex.join(_on(words, instance)), instance.name
    smallest = machine(
        min([*other_instances, on_machine.instance], key=lambda each: each.count).name
    )
    families = {part.family for part in subject.parts}
    if tuple(words[:2]) in _MODEL_COMMANDS:
        layer = ["plan", "layer", *words[2:3], _ON, smallest.instance.name, "--phase"]
        for phase in (Phase.DECODE, Phase.PREFILL, Phase.ENCODE):
            if phase in families:
                yield shlex.join([*layer, phase]), smallest.instance.name
    if smallest.ranks > 1 and any("exchanges" in family for family in families):
        name = on_machine.instance.name
        yield f"plan collective all_reduce --on {name} --bytes 1MiB", name


def _machine(words: Sequence[str], subject: EstimatedFigure) -> Machine:
    """One instance of the type of a question."""
    if _ON in words:
        return machine(words[words.index(_ON) + 1].partition(":")[0])
    return machine(subject.chip)


def _on(words: Sequence[str], instance: Instance) -> list[str]:
    """The question on one instance of another type."""
    new_words = list(words)
    if _ON in new_words:
        new_words[new_words.index(_ON) + 1] = instance.name
    else:
        new_words += [_ON, instance.name]
    if "--instances" in new_words:
        new_words[new_words.index("--instances") + 1] = "1"
    return new_words


def _price(instance: str) -> Quote | None:
    quotes = (quote(instance, kind) for kind in _KINDS)
    return next((each for each in quotes if each.usd_per_hour is not None), None)


def _sigma_after(
    subject: EstimatedFigure,
    sigma: float,
    measured_figures: Sequence[EstimatedFigure],
    *,
    is_same: bool,
) -> float:
    """One sigma of the answer once these figures have been measured."""
    effects: dict[Effect, int] = {}
    for figure in (subject, *measured_figures):
        for part in figure.parts:
            for effect in effects_of(figure.chip, part.family, part.cause):
                effects.setdefault(effect, len(effects))
    gradient = _gradient(subject, effects)
    priors = np.array([float(PRIOR_SIGMAS[effect[0]]) ** 2 for effect in effects])
    priors = priors * sigma**2 / float(gradient**2 @ priors)
    design = np.array([_gradient(figure, effects) for figure in measured_figures])
    repetition_sigma = float(PRIOR_ERROR)
    error = repetition_sigma if is_same else math.hypot(repetition_sigma, float(_OTHER_SIGMA))
    errors = np.full(len(measured_figures), error**2)
    covariance = shrink(design, np.zeros(len(measured_figures)), errors, priors).covariance
    return min(math.sqrt(float(gradient @ covariance @ gradient) + repetition_sigma**2), sigma)


def _gradient(figure: EstimatedFigure, effects: Mapping[Effect, int]) -> Array:
    """The gradient of the logarithm of a figure by the effects."""
    gradient = np.zeros(len(effects))
    for part in figure.parts:
        for effect in effects_of(figure.chip, part.family, part.cause):
            gradient[effects[effect]] += part.time_s / figure.time_s
    return gradient
