"""docs/generated/accuracy-halves.md: tables of both methods on published halves of layers."""

from __future__ import annotations

import textwrap

import numpy as np
from cases import extrapolated
from half import ATTENTION, DECODE
from half_trial import CHOSEN, KINDS, REFIT, SCALED, TOGETHER, trials, whole_s

from trnsim.estimate import constants
from trnsim.estimate.choice import layer_times
from trnsim.place.machine import machine
from trnsim.workload.operators import Phase

HEAD = """# How far both methods are from published halves of layers on Trainium2

Written by `bench/system/halves.py` from rows of `bench/accuracy/rows.json`. No time of a whole
model on Trainium2 is published with all inputs of its estimate. Times of nki-library's kernels are,
and these are halves of layers: the MLP of a step, with its norm and residual; the norm and the
fused product of queries, keys and values; the MLP of a prompt; the attention of a prompt. Two
methods estimate each: the [few constants](accuracy-models.md) of plans, as one half, and the
compiled program of a PyTorch module that computes the same, without its launch. Errors are
(estimate - published) / published.

**The published times** are limits of regression tests, which carry about 15 % noise. They are of a
kernel on its own: they include its start and end, which a layer may hide. Rows that compute the
same count once, by the median of their times; {apart} have rows that are more than 10 % apart, by
their layouts alone.

**Assumptions.** Everything is bfloat16: rows of float32 take the time of bfloat16 at the same
shape. Weights of FP8 have one byte and a scale a column, and are multiplied as bfloat16; programs
have float8_e5m2, as PyTorch lacks the float8 of four exponent bits that Trainium2 has. Sinks,
layouts and stored sums are left out. Where LNC is not stated it is 1. The heads of a row are those
of one prompt. The program's own constants, the HBM rate of two cores among them, were fitted to the
times of these kernels and others ([how far estimates are](accuracy.md)).

{left}

## What to expect

Prompts are estimated by the package's form, fitted without the halves of the same sizes; steps by
the package's constants, which were fitted to no half. Programs are unscaled, without their launch.

{expected}

## Both methods as they are

The package's constants of prompts on Trainium2 were fitted to these halves, so their errors are in
sample. Those of steps were fitted on Trainium1 and Inferentia2 alone.

"""
CHOICE = """
## Methods on halves left out

All halves of one hidden x intermediate, or of an attention of the same queries and keys, are left
out together, and judged by constants that were fitted to the others. The form of each line was
chosen with all of them in sight. Sigma is that of the logarithm of the errors; P10 to P90 hold 85 %
of them.

The few constants that are fitted have the package's form, except for attention: there each score
that no mask discards takes a time, in place of its products, its softmax and the times of all
scores. Unless that time is given, it is that of two elements of a softmax on the Vector Engine:
16.3 ps.
"""
OWN = """
## Constants of Trainium2

{words}

Halves left out, by family:

"""
WHOLE = """
Rows of whole models on Trainium2, which no fit saw, and which need an assumption each
([Trainium2](accuracy-models.md#trainium2)):

| row | published ms | few constants as they are ms | error % | with these constants ms | error % |
|---|---|---|---|---|---|
"""
PACKAGED = ("half_s",)
"""What the package has fitted of prompts."""
TOLERANCE = 0.02
UNITS = {
    "half_s": ("us a half", 1e6),
    "sequence_s": ("us a sequence", 1e6),
    "narrow_s": ("us a half of 8-bit weights", 1e6),
    "products": ("of the peak", 1),
    "memory": ("of the HBM rate", 1),
    "passes": ("passes of elements", 1),
    "token_s": ("us a token", 1e6),
    "score_s": ("ps a score on a core", 1e12),
    "masked_s": ("ps a masked score on a core", 1e12),
    "head_s": ("us a head on a core", 1e6),
    "factor": ("times the program", 1),
}


def line(*cells):
    """A line of a table."""
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def figures(errors):
    """Median and P90 of the sizes of errors, and their signed median, in percent."""
    errors = 100 * np.asarray(errors)
    if not len(errors):
        return ("-",) * 3
    size = np.abs(errors)
    sizes = np.median(size), np.quantile(size, 0.9)
    return *(f"{each:.1f}" for each in sizes), f"{np.median(errors):+.1f}"


def head_lines(few, program):
    """The head of a table of families."""
    yield line(
        *("halves", "number", f"few constants{few}: median %", "P90 %", "signed %"),
        *(f"program{program}: median %", "P90 %", "signed %"),
    )
    yield line(*["---"] * 8)


def by_family(found):
    """A line for each family of halves."""
    yield from head_lines("", "")
    for family in sorted({one.family for one in found}):
        own = [one for one in found if one.family == family]
        few = [one.half.few_s / one.published_s - 1 for one in own]
        program = [one.program_s / one.published_s - 1 for one in own if one.program_s]
        yield line(family, len(own), *figures(few), *figures(program))


def expected(found, tried):
    """A line for each family: the few constants on halves that no fit saw, and programs."""
    yield from head_lines("", "")
    unseen = {}
    own, made = tried[TOGETHER]
    (packaged,) = [one for one in made if (one.method.name, one.method.free) == (REFIT, PACKAGED)]
    for one, error in zip(own, packaged.errors, strict=True):
        unseen[one.ids[0]] = np.exp(error) - 1
    for family in sorted({one.family for one in found}):
        rows = [one for one in found if one.family == family and one.program_s]
        few = [unseen.get(one.ids[0], one.half.few_s / one.published_s - 1) for one in rows]
        program = [one.program_s / one.published_s - 1 for one in rows]
        yield line(family, len(rows), *figures(few), *figures(program))


def faults(tried):
    """Constants of prompts in the package that are not those of their fit."""
    _, made = tried[TOGETHER]
    (packaged,) = [one for one in made if (one.method.name, one.method.free) == (REFIT, PACKAGED)]
    theirs, mine = packaged.constants.half_s, float(constants.KERNEL_PROMPTS.half_s)
    if abs(mine / theirs - 1) > TOLERANCE:
        yield f"a prompt's half is {mine:.4g} s in the package, its fit {theirs:.4g}"
    spread = np.hypot(constants.NEURON[Phase.PREFILL].spread, packaged.spread)
    if abs(constants.KERNEL_PROMPTS.spread - spread) > TOLERANCE:
        yield f"prompts' spread is {constants.KERNEL_PROMPTS.spread}, their errors' {spread:.3f}"


def words_of(own, names):
    """Constants in words."""
    return ", ".join(
        f"{UNITS[name][1] * getattr(own, name):.3g} {UNITS[name][0]}" for name in names
    )


def ranged(trial):
    """The least and the most of each constant over what was left out."""
    found = []
    for name in trial.method.free:
        values = [UNITS[name][1] * getattr(own, name) for own in trial.by_fold.values()]
        found.append(" to ".join(f"{each:.3g}" for each in np.round([min(values), max(values)], 3)))
    return ", ".join(found)


def trial_lines(kind, own, made):
    """The table of all methods on one kind of halves."""
    groups = len({one.half.group for one in own})
    yield f"\n### {kind[0].upper()}{kind[1:]}: {len(own)} in {groups} groups\n"
    yield line("method", "constants", "median %", "P90 %", "signed %", "sigma", "over groups")
    yield line(*["---"] * 7)
    for trial in made:
        free = trial.method.free
        cells = figures(np.exp(trial.errors) - 1)
        words = words_of(trial.constants, free) if free else "-"
        yield line(trial.method.name, words, *cells, f"{trial.spread:.2f}", ranged(trial) or "-")


def chosen(kind, made):
    """The trials of the few constants and of programs that are shown by family."""
    few, program = CHOSEN[kind]
    names = (REFIT, few), (SCALED, program)
    return [one for pair in names for one in made if (one.method.name, one.method.free) == pair]


def own_lines(tried):
    """Errors of halves left out, by family, of the chosen constants."""
    yield from head_lines(", fitted", ", fitted")
    for kind in CHOSEN:
        own, made = tried[kind]
        trials_of = chosen(kind, made)
        for family in sorted({one.family for one in own}):
            at = [number for number, one in enumerate(own) if one.family == family]
            cells = [cell for one in trials_of for cell in figures(np.exp(one.errors[at]) - 1)]
            yield line(family, len(at), *cells)


def whole_lines(tried):
    """Rows of whole models with the constants as they are, and with those of halves."""
    for case, _ in extrapolated():
        is_step = case.given.phase is Phase.DECODE
        own = chosen(*_of(tried, DECODE if is_step else TOGETHER))[0].constants
        few_s = case.seconds(layer_times(machine("trn2", lnc=case.lnc)))
        cells = []
        for seconds in (few_s, whole_s(case, own)):
            cells += [f"{1e3 * seconds:.4g}", f"{100 * (seconds / case.published_s - 1):+.1f}"]
        yield line(case.id, f"{1e3 * case.published_s:.4g}", *cells)


def _of(tried, kind):
    return kind, tried[kind][1]


def own_words(tried):
    """The chosen constants in words."""
    found = []
    for kind in CHOSEN:
        few, program = chosen(*_of(tried, kind))
        said = words_of(few.constants, few.method.free)
        other = words_of(program.constants, program.method.free)
        made = tried[kind][1][0]
        found.append(
            f"- {kind[0].upper()}{kind[1:]}: {said}, with a spread of {100 * few.spread:.0f} % on "
            f"halves left out, {100 * made.spread:.0f} % as they are. Programs: {other}, "
            f"{100 * program.spread:.0f} %."
        )
    return "\n".join(textwrap.fill(one, 100, subsequent_indent="  ") for one in found)


def each_line(found):
    """A line for each half."""
    yield line(
        "rows", "what", "published us", "few constants us", "error %", "program us", "error %"
    )
    yield line(*["---"] * 7)
    for one in sorted(found, key=lambda one: (one.family, one.half.lnc, one.published_s)):
        cells = [f"{1e6 * one.published_s:.4g}"]
        for seconds in (one.half.few_s, one.program_s):
            cells += [f"{1e6 * seconds:.4g}"] if seconds else ["-"]
            cells += [f"{100 * (seconds / one.published_s - 1):+.1f}"] if seconds else [one.why]
        ids = ", ".join(name.removeprefix("nkl-") for name in one.ids)
        yield line(ids, f"{one.family}, {told(one.half)}", *cells)


def told(half):
    """What a half is, in words."""
    cores = f"LNC={half.lnc}"
    if half.kind == ATTENTION:
        mask = "causal" if half.is_causal else "all keys"
        shared = "" if half.heads == half.shared else f" on {half.shared}"
        return f"{cores}, {half.heads} heads{shared} of {half.hidden}, {half.group}, {mask}"
    norm = {"rms": ", RMS norm", "layer": ", layer norm", "": ""}[half.norm]
    added = ", residual" if half.is_added else ""
    gate = ", no gate" if half.act and not half.is_gated else ""
    return f"{cores}, {half.batch} x {half.tokens}, {half.group}{norm}{added}{gate}"


def page(found, left):
    """The page, and what in the package is not as fitted."""
    reasons = {}
    for why in left.values():
        reasons[why] = reasons.get(why, 0) + 1
    text = "; ".join(f"{why} ({count})" for why, count in reasons.items())
    apart = sum(one.most_s > 1.1 * one.least_s for one in found)
    kept = textwrap.fill(f"**Rows left out:** {text}.", 100)
    tried = {kind: trials(kind, found) for kind in KINDS}
    tables = [one for kind, each in tried.items() for one in trial_lines(kind, *each)]
    first = "\n".join(expected(found, tried))
    parts = (
        (HEAD.format(left=kept, apart=f"{apart} halves", expected=first), by_family(found)),
        (CHOICE, tables),
        (OWN.format(words=own_words(tried)), own_lines(tried)),
        (WHOLE, whole_lines(tried)),
        ("\n## Half by half\n\n", each_line(found)),
    )
    text = "".join(head + "\n".join(lines) + "\n" for head, lines in parts)
    return text, list(faults(tried))
