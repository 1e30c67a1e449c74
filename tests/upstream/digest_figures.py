"""How the figures of two digests differ, by what they are of: seconds, bytes, FLOP, dollars.

A figure that is a part of a sum is compared in terms of that sum, so that a part of nothing that
becomes a part of little is no difference. What few constants answer is told apart from the rest.
"""

import math
import re
from collections import defaultdict
from dataclasses import dataclass

SHARE = 0.01
"""By which a figure may differ."""
KINDS = (
    ("parts of seconds", re.compile(r"parts_s\.")),
    ("dollars", re.compile(r"usd")),
    ("rates", re.compile(r"_per_s(_|\b)|mfu|goodput")),
    ("bytes", re.compile(r"bytes")),
    ("FLOP", re.compile(r"flop")),
    ("seconds", re.compile(r"_s\b|_s_|_ms\b|seconds")),
)
"""The first that is found in a figure's place is its kind."""
QUANTILES = ("p10", "p90")
OTHERS = "counts and shares"
CONSTANTS = "few constants"


@dataclass(frozen=True)
class Difference:
    """A figure of two rows.

    Attributes:
        key: of the rows.
        place: in the answer.
        kind: what it is of.
        basis: what answered: few constants, or something else.
        before: the first row's figure.
        after: the second row's.
        share: by how much they differ, in terms of the larger, or of the sum of which it is a part.
    """

    key: str
    place: str
    kind: str
    basis: str
    before: float
    after: float
    share: float


def kind_of(place):
    """What a figure is of, and whether it is P10 or P90."""
    kind = next((name for name, pattern in KINDS if pattern.search(place)), OTHERS)
    quantile = next((q for q in QUANTILES if place.endswith((f".{q}", f".{q}_s"))), "")
    return f"{kind}, {quantile.upper()}" if quantile else kind


def basis_of(row):
    """Whether few constants alone answered a row, something else did, or it does not say."""
    said = [
        text
        for place, text in row.get("words", {}).items()
        if "sources" in place or place.endswith((".source", "times"))
    ]
    if not said:
        return "no source"
    return CONSTANTS if all(CONSTANTS in text for text in said) else "others"


def differences(one, other):
    """The figures of two digests' rows that are not equal, and those that one of them has alone.

    `one` and `other` are rows by their keys.
    """
    unequal, alone = [], []
    for key in one.keys() & other.keys():
        mine, theirs = (rows[key].get("figures", {}) for rows in (one, other))
        if not (mine and theirs):
            continue  # a refusal, which is compared as such
        alone += [f"{key}: {place}" for place in sorted(mine.keys() ^ theirs.keys())]
        sums = [_sums(figures) for figures in (mine, theirs)]
        basis = basis_of(one[key])
        for place in mine.keys() & theirs.keys():
            before, after = mine[place], theirs[place]
            if before == after:
                continue
            whole = max(total.get(_parent(place), 0.0) for total in sums)
            share = _share(before, after, whole)
            unequal.append(Difference(key, place, kind_of(place), basis, before, after, share))
    return sorted(unequal, key=lambda found: -found.share), sorted(alone)


def _share(before, after, whole):
    if math.isnan(before) and math.isnan(after):
        return 0.0
    base = whole or max(abs(before), abs(after))
    return abs(after - before) / base if math.isfinite(base) and base else math.inf


def _parent(place):
    """The sum of which a figure is a part; "" for one that stands for itself."""
    parent, _, _ = place.rpartition(".")
    return parent if parent.endswith("parts_s") else ""


def _sums(figures):
    """The sums of parts, by the place that the parts share."""
    found = defaultdict(float)
    for place, figure in figures.items():
        if _parent(place):
            found[_parent(place)] += abs(figure)
    return found


def told(one, other):
    """Lines on the figures of two digests' rows, and whether one differs by more than `SHARE`."""
    unequal, alone = differences(one, other)
    shared = [key for key in one if key in other and "figures" in one[key]]
    count = sum(len(one[key]["figures"]) for key in shared)
    lines = [f"figures: {count} of {len(shared)} rows, {len(unequal)} not equal"]
    lines += _largest(unequal)
    beyond = [found for found in unequal if found.share > SHARE]
    lines.append(f"figures that one digest has alone: {len(alone)}")
    lines += [f"  {text}" for text in alone]
    lines.append(f"figures that differ by more than {SHARE:.0%}: {len(beyond)}")
    lines += _grouped(beyond)
    return lines, bool(beyond or alone)


def _largest(unequal):
    """A line for each kind and basis: how many, and the largest."""
    groups = defaultdict(list)
    for found in unequal:
        groups[found.kind, found.basis].append(found)
    return [
        f"  {kind} ({basis}): {len(held)} not equal, largest {_text(held[0])}"
        for (kind, basis), held in sorted(groups.items())
    ]


def _grouped(beyond):
    """Every difference of these, by basis, command and figure."""
    groups = defaultdict(list)
    for found in beyond:
        command = " ".join(found.key.split(" | ")[1].split()[:2])
        groups[found.basis, command, _figure(found.place)].append(found)
    lines = []
    for (basis, command, figure), held in sorted(groups.items()):
        middle = sorted(found.share for found in held)[len(held) // 2]
        lines.append(
            f"  {command}, {figure} ({basis}): {len(held)}, {middle:.2%} in the median, "
            f"{held[0].share:.2%} at most"
        )
        lines += [f"    {_text(found)}" for found in held]
    return lines


def _figure(place):
    """A figure's place without the numbers and names of a list's parts."""
    return re.sub(r"\[[^\]]*\]", "[]", place)


def _text(found):
    return (
        f"{found.share:.2%}: {found.key.split(' | ')[1]}: {found.place}: "
        f"{found.before!r} -> {found.after!r}"
    )
