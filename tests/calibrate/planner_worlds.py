"""Worlds whose planner has other constants: what `trnsim calibrate` learns of them from 20 rows.

    PYTHONPATH=src python tests/calibrate/planner_worlds.py [WORLDS] [ROWS]

A world multiplies the constants by which trnsim's planner prices layers (peaks and bandwidths by
chip, fixed times, passes of elements and keys by family, exchanges) by factors that are drawn, and
its planner, with those, answers the same questions. A log is its answers with noise, of which rows
are calibrated; the other questions are not seen. "Before" and "after" are medians of
|estimate / measured - 1| over the unseen questions of a world.
"""

import math
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from statistics import fmean, median
from unittest.mock import patch

import numpy as np

from trnsim.calibrate.asking import figures_of_question
from trnsim.calibrate.calibration import calibrate, sigma_of
from trnsim.calibrate.row import Measurement, Row
from trnsim.cli.questions import ask
from trnsim.errors import SourceLine
from trnsim.estimate import choice, constants, rank
from trnsim.estimate.estimate import QUANTILES

ROOT = Path(__file__).parents[2]
DAY = date(2026, 11, 20)
NOISE = 0.05
FACTOR_SIGMA = 0.3
SLOWER = (1.6, 2.6)
"""The range of a factor that all of a world's times have in common."""
FIELDS = ("half_s", "cache_passes", "sequence_s", "score_s", "element_passes", "kernel_passes")
LLAMA, BERT = "examples/llama-3.1-8b.json", "examples/bert-large.json"
QUESTIONS = [
    *(
        f"plan infer {BERT} --on {on} --batch {batch} --sequence {tokens}"
        for on in ("inf2.xlarge", "trn1.2xlarge")
        for batch in (1, 4, 16)
        for tokens in (64, 128, 384)
    ),
    *(
        f"plan layer {LLAMA} --on {on} --phase {phase} --batch {batch} --sequence {tokens} "
        f"--tensor-parallel-size 8"
        for on in ("trn1", "trn2")
        for phase in ("decode", "prefill")
        for batch in (1, 4, 16)
        for tokens in (512, 2048)
    ),
]
"""Questions of five groups: encoders on two chips, decodes and prompts on two."""


@dataclass(frozen=True)
class Learned:
    """What a world's calibration learned: errors, and how many rows its intervals hold."""

    before: float
    after: float
    inside: float
    left_out: int


@contextmanager
def world(seed):
    """The planner with constants of another world."""
    drawn = np.random.default_rng(seed)
    slower = drawn.uniform(*SLOWER)

    def factor():
        return math.exp(FACTOR_SIGMA * drawn.standard_normal())

    chips = {}

    def of_chip(kind, machine):
        key = kind, machine.chip.name
        if key not in chips:
            chips[key] = factor() / slower
        return chips[key]

    for kind in ("flop", "bytes"):  # in one order, whichever question comes first
        for name in ("inferentia2", "trainium1", "trainium2"):
            chips[kind, name] = factor() / slower
    peak, bandwidth = choice.peak, choice.bytes_per_s
    with ExitStack() as stack:
        replaced = {
            phase: replace(
                fit,
                **{name: scaled(getattr(fit, name), slower * factor()) for name in FIELDS},
            )
            for phase, fit in constants.NEURON.items()
        }
        prompts = constants.KERNEL_PROMPTS
        prompts = replace(
            prompts, **{name: scaled(getattr(prompts, name), slower * factor()) for name in FIELDS}
        )
        stack.enter_context(patch.object(constants, "NEURON", replaced))
        stack.enter_context(patch.object(constants, "KERNEL_PROMPTS", prompts))
        stack.enter_context(
            patch.object(
                choice,
                "peak",
                lambda machine, dtype: peak(machine, dtype) * of_chip("flop", machine),
            )
        )
        stack.enter_context(
            patch.object(
                choice,
                "bytes_per_s",
                lambda machine: bandwidth(machine) * of_chip("bytes", machine),
            )
        )
        exchanged = slower * factor()
        stack.enter_context(patch.object(rank, "exchange_factor", lambda _chip: exchanged))
        yield


def scaled(fact, factor):
    """A fact with another value and the same provenance."""
    return type(fact)(float(fact) * factor, fact.provenance)


_estimates = {}


def estimated(question):
    """The planner's own estimate, asked once."""
    if question not in _estimates:
        _estimates[question] = figures_of_question(question, ask)["time"]
    return _estimates[question]


def rows_of_world(seed, noise=NOISE):
    """Every question with what the world's planner says and noise, in an order of its own."""
    estimates = [estimated(question) for question in QUESTIONS]
    with world(seed):
        truths = [figures_of_question(question, ask)["time"].time_s for question in QUESTIONS]
    drawn = np.random.default_rng(1000 + seed)
    measured = np.array(truths) * np.exp(noise * drawn.standard_normal(len(truths)))
    rows = [
        Row(Measurement(question, "time", float(time_s), SourceLine("log.csv", at + 2)), own)
        for at, (question, time_s, own) in enumerate(
            zip(QUESTIONS, measured, estimates, strict=True)
        )
    ]
    return [rows[at] for at in drawn.permutation(len(rows))]


def learned(seed, count=20, noise=NOISE, rows=None):
    """What a calibration by `count` rows says of the others."""
    rows = rows or rows_of_world(seed, noise)
    calibration = calibrate(rows[:count], [], DAY)
    unseen, fitted = rows[count:], calibration.fitted
    after = [(row, fitted.predicted_s(row), sigma_of(fitted, row)) for row in unseen]
    z = QUANTILES["p90"]
    return Learned(
        median(abs(row.estimated.time_s / row.measured_s - 1) for row in unseen),
        median(abs(time_s / row.measured_s - 1) for row, time_s, _ in after),
        fmean(abs(math.log(row.measured_s / time_s)) <= z * sigma for row, time_s, sigma in after),
        len(calibration.left_out),
    )


def main():
    """Print the table of all worlds."""
    worlds = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    results = [learned(seed, count) for seed in range(worlds)]
    for seed, each in enumerate(results):
        sys.stdout.write(
            f"world {seed}: {each.before:.0%} before, {each.after:.1%} after, "
            f"{each.inside:.0%} inside, {each.left_out} left out\n"
        )
    sys.stdout.write(
        f"median {median(e.before for e in results):.0%} before, "
        f"{median(e.after for e in results):.1%} after, worst {max(e.after for e in results):.1%}, "
        f"{fmean(e.inside for e in results):.0%} inside\n"
    )


if __name__ == "__main__":
    main()
