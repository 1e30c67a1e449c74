"""Trials of methods on published halves: each half is judged by a fit that saw no half like it.

Left out together are all halves of one hidden x intermediate, or of one shape of attention. Errors
are logarithms of (estimate / published).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from folds import SIZES, SQUARES, fit, sigma
from half import ATTENTION, BITS, DECODE, PROMPT

from trnsim.estimate.choice import bytes_per_s, layer_times, peak
from trnsim.estimate.few import elements
from trnsim.place.machine import machine
from trnsim.workload.operators import Phase


@dataclass(frozen=True)
class Own:
    """Constants of Trainium2.

    Attributes:
        half_s: seconds of a half that nothing else explains.
        sequence_s: seconds of a half for each sequence.
        narrow_s: seconds of a half whose weights have 8 bits, besides.
        products: part of the peak that products reach.
        memory: part of the few constants' HBM rate.
        passes: how often norms, residuals and activations pass the Vector Engine.
        token_s: seconds of a token.
        score_s: seconds of a score that is not masked, on one core.
        masked_s: seconds of a masked score, on one core.
        head_s: seconds of a head of an attention, on one core.
        factor: of the program's time.
    """

    half_s: float = 30e-6
    sequence_s: float = 0.0
    narrow_s: float = 0.0
    products: float = 0.69
    memory: float = 1.0
    passes: float = 1.0
    token_s: float = 0.0
    score_s: float = 0.0
    masked_s: float = 0.0
    head_s: float = 0.0
    factor: float = 1.0


class Few:
    """Halves as arrays, answered by the few constants' form."""

    def __init__(self, found):
        self.found = found
        halves = [one.half for one in found]
        machines = [machine("trn2", lnc=half.lnc) for half in halves]
        self.lnc = np.array([half.lnc for half in halves], float)
        self.flop = np.array([half.block.flop for half in halves])
        self.weights = np.array([half.block.weight_bytes for half in halves])
        self.peak = np.array([peak(one, "bf16") for one in machines])
        self.rate = np.array([bytes_per_s(one) for one in machines])
        self.element_s = np.array(
            [_element_s(one, half) for one, half in zip(machines, halves, strict=True)]
        )
        self.elements = np.array([elements(half.block) for half in halves])
        self.batch = np.array([half.batch for half in halves], float)
        self.is_narrow = np.array([half.weight_bits < BITS for half in halves], float)
        self.tokens = np.array([half.given.rows for half in halves], float)
        self.scores = np.array([half.scores for half in halves], float)
        self.seen = np.array([half.seen for half in halves], float)
        self.heads = np.array([half.heads for half in halves], float)
        self.published_s = np.array([one.published_s for one in found])

    def seconds(self, own):
        """Estimates: `FewConstants`' form, whose scores take the place of their products."""
        products = self.flop / (own.products * self.peak)
        met = np.maximum(products, self.weights / (own.memory * self.rate))
        met = met + own.passes * self.elements * self.element_s
        masked = self.scores - self.seen
        scored = self.seen * own.score_s + masked * own.masked_s + self.heads * own.head_s
        each = np.where(self.heads > 0, scored / self.lnc, met)
        each = each + self.batch * own.sequence_s + self.tokens * own.token_s
        return each + own.half_s + self.is_narrow * own.narrow_s

    def errors(self, own):
        """Logarithms of estimate over published."""
        return np.log(self.seconds(own) / self.published_s)


class Program(Few):
    """Halves as arrays, answered by their programs."""

    def seconds(self, own):
        """Estimates: the program's time, scaled, beside a time of a half."""
        program = np.array([one.program_s for one in self.found])
        return own.factor * program + own.half_s


def _element_s(one, half):
    return layer_times(one, half.given.phase).modelled.forms[half.given.phase].element_s


@dataclass(frozen=True)
class Method:
    """A way to answer.

    Attributes:
        name: in tables.
        rows: what answers halves.
        start: constants to begin with.
        free: those that are fitted.
    """

    name: str
    rows: type
    start: Own
    free: tuple


@dataclass(frozen=True)
class Trial:
    """A method on halves of one kind.

    Attributes:
        method: the method.
        constants: fitted to all of them.
        errors: of each half, by a fit without those like it.
        by_fold: constants without each group.
    """

    method: Method
    constants: Own
    errors: np.ndarray
    by_fold: dict

    @property
    def spread(self):
        """One sigma of the logarithm of the errors of halves left out."""
        return sigma(self.errors)


SHIPPED, REFIT = "few constants as they are", "few constants, fitted"
AS_IS, WITH_LAUNCH, SCALED = "program", "program and its launch", "program, fitted"
PLAIN, TOGETHER = "decode MLPs in bfloat16", "prompts' halves together"
KINDS = (DECODE, PLAIN, PROMPT, ATTENTION, TOGETHER)
POWERS = {PROMPT: SIZES, ATTENTION: SIZES, TOGETHER: SIZES, DECODE: SQUARES, PLAIN: SQUARES}
"""Steps are fitted by least squares and prompts by least sizes of errors, as TPOT and TTFT are."""
SOFTMAX_S = 2 / (128 * 0.96e9)
"""Two elements of a softmax on the 128 lanes of a core's Vector Engine."""
MLP = Own(half_s=40e-6)
SCORED = Own(half_s=40e-6, score_s=SOFTMAX_S)
STEPS = (
    (MLP, ("half_s",)),
    (replace(MLP, half_s=33.3e-6, token_s=5e-7), ("token_s",)),
    (MLP, ("half_s", "memory")),
    (replace(MLP, passes=5.0), ("half_s", "passes")),
    (replace(MLP, token_s=5e-7), ("half_s", "token_s")),
    (replace(MLP, token_s=5e-7), ("half_s", "token_s", "memory")),
    (replace(MLP, token_s=5e-7, narrow_s=5e-6), ("half_s", "token_s", "narrow_s")),
)
FREE = {
    DECODE: STEPS,
    PLAIN: STEPS[:-1],
    PROMPT: (
        (MLP, ("half_s",)),
        (replace(MLP, sequence_s=1e-5), ("half_s", "sequence_s")),
        (MLP, ("half_s", "products")),
        (MLP, ("half_s", "passes")),
        (MLP, ("half_s", "products", "passes")),
    ),
    ATTENTION: (
        (SCORED, ("half_s",)),
        (SCORED, ("half_s", "score_s")),
        (replace(SCORED, masked_s=2e-12), ("half_s", "score_s", "masked_s")),
        (replace(SCORED, head_s=5e-6), ("half_s", "score_s", "head_s")),
    ),
    TOGETHER: (
        (SCORED, ("half_s",)),
        (SCORED, ("half_s", "score_s")),
        (replace(SCORED, head_s=5e-6), ("half_s", "score_s", "head_s")),
    ),
}
"""By kind, which constants of the few are fitted; the others stay as they are in the package."""
PROGRAMS = (
    (Own(half_s=0.0), ("factor",)),
    (Own(), ("half_s",)),
    (Own(), ("factor", "half_s")),
)
CHOSEN = {
    DECODE: (("half_s", "token_s"), ("factor", "half_s")),
    TOGETHER: (("half_s", "score_s"), ("half_s",)),
}
"""What is shown by family: constants of the few, and of programs."""


def trials(kind, found):
    """(halves of a kind that have a program, all methods on them)."""
    found = [one for one in found if one.program_s is not None and belongs(one, kind)]
    published = np.array([one.published_s for one in found])
    fixed = {
        SHIPPED: [one.half.few_s for one in found],
        AS_IS: [one.program_s for one in found],
        WITH_LAUNCH: [one.program_s + one.launch_s for one in found],
    }
    errors = {name: np.log(np.array(seconds) / published) for name, seconds in fixed.items()}
    made = [Trial(Method(name, Few, Own(), ()), Own(), found, {}) for name, found in errors.items()]
    methods = [Method(REFIT, Few, *each) for each in FREE[kind]]
    methods += [Method(SCALED, Program, *each) for each in PROGRAMS]
    return found, made + [left_out(method, found, POWERS[kind]) for method in methods]


def belongs(one, kind):
    """Whether a half is of a kind."""
    if kind == PLAIN:
        return one.family == "decode MLP"
    return one.half.kind == kind or (kind == TOGETHER and one.half.kind != DECODE)


def left_out(method, found, power):
    """A method on halves, each judged without those of its group."""
    errors, by_fold = np.zeros(len(found)), {}
    groups = np.array([one.half.group for one in found])
    for group in dict.fromkeys(groups):
        others = [one for one in found if one.half.group != group]
        own = [one for one in found if one.half.group == group]
        fitted = fit(method.rows(others), method.start, method.free, power)
        by_fold[str(group)] = fitted
        errors[groups == group] = method.rows(own).errors(fitted)
    constants = fit(method.rows(found), method.start, method.free, power)
    return Trial(method, constants, errors, by_fold)


def whole_s(case, own):
    """A pass of a whole model on Trainium2 whose halves take what these constants say."""
    lnc, given = case.lnc, case.given
    form = layer_times(machine("trn2", lnc=lnc), given.phase).modelled.forms[given.phase]
    is_prompt = given.phase is Phase.PREFILL
    form = replace(form, fixed_s=2 * own.half_s, sequence_s=own.token_s, score_s=0.0)
    total_s = case.exchanges_s
    for block in case.made:
        scored = [one for one in block.products if one.name == "scores"] if is_prompt else []
        seen = sum(one.m * one.n * one.times * one.causal for one in scored)
        kept = without_scores(block) if is_prompt else block
        total_s += block.times * (form.forward(kept, given).time_s + seen * own.score_s / lnc)
    return total_s


def without_scores(block):
    """A block whose attention multiplies nothing and has a softmax without elements."""
    products = tuple(one for one in block.products if one.name not in ("scores", "values"))
    elementwise = tuple(
        replace(one, elements=0.0) if one.name == "softmax" else one for one in block.elementwise
    )
    return replace(block, products=products, elementwise=elementwise)
