"""The ways in which a new question differs from the rows: seven cuts, each left out in turn."""

from __future__ import annotations

import refits
from intervals import Residual, distance

LIMITS = {"batch": 8, "length": 4096, "size": 30e9}
"""Rows above these are left out together."""
VALUES = ("architecture", "chip", "source")
"""Rows of each of their values are left out together."""
CUTS = ("architecture", "chip", "batch", "length", "size", "source")


def groups(rows):
    """(cut, what is left out, rows) of every cut."""
    for name, limit in LIMITS.items():
        out = [row for row in rows if getattr(row, name) > limit]
        if out:
            yield name, f"above {limit:,.0f}", out
    for name in VALUES:
        for value in sorted({getattr(row, name) for row in rows}):
            yield name, value, [row for row in rows if getattr(row, name) == value]


def residuals(rows):
    """Errors of rows in every cut among `rows`, by fits that did not see what was left out."""
    found = []
    for cut, group, out in groups(rows):
        found += left_out(rows, cut, group, out)
    return found


_KNOWN = {}


def left_out(rows, cut, group, out):
    """Residuals of what a cut leaves out, by family: each set of rows is fitted once."""
    ids = {row.id for row in out}
    seen = [row for row in rows if row.id not in ids]
    found = []
    for family in dict.fromkeys(row.family for row in out):
        own = [row for row in out if row.family == family]
        bases = family, *refits.BASES.get(family, (refits.ENCODERS,))
        base = frozenset(row.id for row in seen if row.family in bases)
        key = family, frozenset(row.id for row in own), base
        if key not in _KNOWN:
            answers = refits.answers(own, seen)
            _KNOWN[key] = [(one, distance(one, seen)) for one in answers]
        found += [Residual(one, cut, group, far) for one, far in _KNOWN[key]]
    return found
