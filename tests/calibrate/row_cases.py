"""Rows of a world in which every factor is known."""

import math

import numpy as np

from trnsim.calibrate.row import CauseTime, EstimatedFigure, Measurement, Row
from trnsim.errors import SourceLine

CAUSES = {"decode": ("weights", "KV", "fixed"), "encode": ("products", "elements", "fixed")}


def estimated(chip="trainium1", family="decode", time_s=0.01, shares=None, bound_s=0.0):
    """An estimate whose causes have these shares of its time."""
    shares = shares or {CAUSES[family][0]: 1.0}
    parts = tuple(CauseTime(family, cause, time_s * share) for cause, share in shares.items())
    return EstimatedFigure(chip, family, time_s, parts, 0.0, 0.9 * time_s, 1.1 * time_s, bound_s)


def row(measured_s, own=None, *, line=2, file="log.csv", figure="time", question="plan x"):
    """A measured time beside an estimate."""
    return Row(
        Measurement(question, figure, measured_s, SourceLine(file, line)), own or estimated()
    )


def drawn_rows(count, seed=0, *, noise=0.05, chips=("trainium1", "trainium2"), slower=1.6):
    """Rows of a world that is `slower`, with factors of its chips, families and causes."""
    drawn = np.random.default_rng(seed)
    factors = {}

    def factor(*key):
        return factors.setdefault(key, math.exp(0.2 * drawn.standard_normal()))

    rows = []
    for at in range(count):
        chip, family = chips[drawn.integers(len(chips))], ("decode", "encode")[drawn.integers(2)]
        shares = dict(zip(CAUSES[family], drawn.dirichlet((1.5, 1.5, 1.5)), strict=True))
        own = estimated(chip, family, math.exp(drawn.normal(-5, 1)), shares)
        true_s = sum(
            factor(chip) * factor(family) * factor(family, part.cause) * part.time_s
            for part in own.parts
        )
        measured_s = slower * true_s * math.exp(noise * drawn.standard_normal())
        rows.append(row(measured_s, own, line=at + 2))
    return rows
