"""Published collectives, the constants that are fitted to them, and the fit without a table.

Every row of bench/collectives.json is read. A table is one command's output: its rows share the
instance and what a row's time contains, so tables are left out whole. No table but one names its
instance; where the page gives no hint the row may be of any of several, which its interval has.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import combinations
from pathlib import Path
from statistics import fmean, geometric_mean
from typing import Final, NamedTuple
from unittest.mock import patch

from trnsim.arch.catalogue import catalogue
from trnsim.fabric import constants as published_constants
from trnsim.fabric.collective_time import time_on
from trnsim.fabric.exchange import exchange
from trnsim.fabric.fabric import fabric
from trnsim.fabric.floors import Floor, FloorTimes, mixture, ring_way
from trnsim.facts import Evidence, Interval, Provenance, Rate

ROWS_FILE: Final = Path(__file__).parents[2] / "bench" / "collectives.json"
_US: Final = 1e-6
_P90_SIGMAS: Final = 1.2816
_INSIDE: Final = 0.8
_OVER_INSTANCES: Final = 0.3


class Row(NamedTuple):
    """A published collective.

    Attributes:
        id: its name.
        table: the table that it is of.
        kind: kind of the collective.
        ranks: ranks that take part.
        nbytes: bytes of the message.
        time_s: published seconds.
        hardware: what is known of the instance.
    """

    id: str
    table: str
    kind: str
    ranks: int
    nbytes: int
    time_s: float
    hardware: str


class Place(NamedTuple):
    """Instances that a table may be of."""

    instance: str
    lnc: int = 1
    nodes: int = 1

    @property
    def chip(self) -> str:
        """The chip."""
        return catalogue().instance(self.instance).accelerator


class PublishedTable(NamedTuple):
    """What is taken of a table.

    Attributes:
        places: instances that it may be of, equally likely; the first gives the estimate.
        floor: what its times contain.
    """

    places: tuple[Place, ...]
    floor: Floor = Floor.HOST


TRN1: Final = Place("trn1.32xlarge")
TRN2: Final = Place("trn2.48xlarge")
TRN2_PAIRS: Final = Place("trn2.48xlarge", 2)
TABLES: Final = {
    "nccom-allr2": PublishedTable((TRN1,)),
    "nccom-allr2-32M": PublishedTable((TRN1,)),
    "nccom-allg32-old": PublishedTable((TRN1,)),
    "nccom-allr64-2node": PublishedTable((TRN1._replace(nodes=2),)),
    "nccom-allr16-alg": PublishedTable((TRN2, TRN2_PAIRS, TRN1)),
    "nccom-allg64-ms": PublishedTable((TRN2_PAIRS, TRN2)),
    "nccom-allg32-new": PublishedTable((TRN2, TRN2_PAIRS), Floor.PROGRAM),
}
ANYWHERE: Final = (TRN1, TRN2, TRN2_PAIRS)
"""Instances that any table of one instance may be of, if no hint of the data is believed."""


class Constants(NamedTuple):
    """The constants that published collectives give.

    Attributes:
        base_s: seconds of the host's start besides its steps.
        step_s: seconds of a step of it.
        first_spread: spread of starts on the first generation.
        later_spread: spread of other starts.
        rank_bytes_per_s: rate at which a rank of the first generation passes bytes on.
        inside_s: seconds before the first transfer inside a program of later chips.
        inside_spread: spread of latencies inside a program of later chips.
    """

    base_s: float
    step_s: float
    first_spread: float
    later_spread: float
    rank_bytes_per_s: float
    inside_s: float
    inside_spread: float


class Judged(NamedTuple):
    """A row with its estimate.

    Attributes:
        row: the row.
        estimate_s: seconds on the instance that it is taken to be of.
        interval: P10, P50 and P90 over its possible instances.
    """

    row: Row
    estimate_s: float
    interval: Interval

    @property
    def error(self) -> float:
        """``(estimate - published) / published``."""
        return self.estimate_s / self.row.time_s - 1

    @property
    def is_inside(self) -> bool:
        """True if the published time is between P10 and P90."""
        return self.interval.p10 <= self.row.time_s <= self.interval.p90


@cache
def all_rows() -> tuple[Row, ...]:
    """The published collectives; latencies of single transfers are constants, not rows."""
    return tuple(
        Row(
            record["id"],
            record["table"],
            record["kind"],
            record["ranks"],
            record["bytes"],
            record["us"] * _US,
            record["hardware"],
        )
        for record in json.loads(ROWS_FILE.read_text(encoding="utf-8"))
        if record["table"] in TABLES
    )


def rows_of(table: str) -> tuple[Row, ...]:
    """The rows of a table, the smallest message first."""
    return tuple(row for row in all_rows() if row.table == table)


def fit(tables: Collection[str] = tuple(TABLES)) -> Constants:
    """The constants that these tables give."""
    started = tuple(name for name in TABLES if name in tables and _has_start(name))
    base_s, step_s = host_line(started)
    is_published = "nccom-allg32-new" in tables
    hops_s, first_s = 2 * float(published_constants.hop_s("trainium2")), _first_start_s()
    inside_s, inside_spread = (
        _LEAST_INSIDE_S - hops_s,
        float(published_constants.LATENCIES.provenance.spread),
    )
    if not is_published:
        # Between hops alone and a start as of the first generation, which are P10 and P90.
        middle_s = math.sqrt(hops_s * (hops_s + first_s))
        inside_s = middle_s - hops_s
        inside_spread = _spread(math.log(middle_s / hops_s))
    return Constants(
        base_s,
        step_s,
        host_spread(started, is_first=True),
        host_spread(started, is_first=False),
        rank_rate([name for name in tables if name in _SLOPED]),
        inside_s,
        inside_spread,
    )


_LEAST_INSIDE_S: Final = 6.16 * _US
_SLOPED: Final = ("nccom-allr2", "nccom-allr2-32M", "nccom-allr64-2node")
"""Tables of the first generation with a large message."""


def _first_start_s() -> float:
    return float(published_constants.start_s("trainium1"))


def _has_start(table: str) -> bool:
    """True if its smallest message is short enough to show the start alone."""
    return TABLES[table].floor is Floor.HOST and rows_of(table)[0].nbytes <= 1024  # noqa: PLR2004


def _is_first(table: str) -> bool:
    return not published_constants.has_described_algorithms(TABLES[table].places[0].chip)


FORMS: Final[Mapping[str, Callable[[int, int], float]]] = {
    "steps of a ring": lambda steps, _: float(steps),
    "ranks": lambda _, ranks: float(ranks),
    "logarithm of ranks": lambda _, ranks: math.log2(ranks),
}
"""What a start may grow with: a function of steps of a ring and ranks."""
_STEPS: Final = "steps of a ring"


@cache
def host_line(tables: tuple[str, ...], form: str = _STEPS) -> tuple[float, float]:
    """Base and step of the start: the least sum of absolute errors of logarithms.

    That sum is least on a line through two of the points, or through one and without steps.
    """
    points = [_point(name, form) for name in tables]
    lines = [(time_s - crossing_s, 0.0) for _, crossing_s, time_s in points]
    for (steps, crossing_s, time_s), (more, far_s, longer_s) in combinations(points, 2):
        if more == steps:
            continue
        step_s = ((longer_s - far_s) - (time_s - crossing_s)) / (more - steps)
        base_s = time_s - crossing_s - steps * step_s
        if step_s >= 0 and base_s > 0:
            lines.append((base_s, step_s))
    return min(
        lines,
        key=lambda line: sum(
            abs(math.log(time_s / (line[0] + steps * line[1] + crossing_s)))
            for steps, crossing_s, time_s in points
        ),
    )


def _point(table: str, form: str) -> tuple[float, float, float]:
    """What the start of a table's smallest message grows with; seconds over EFA; its seconds."""
    row, place = rows_of(table)[0], TABLES[table].places[0]
    steps, crossings_s = ring_way(row.kind, row.ranks, place.nodes)
    return FORMS[form](steps, row.ranks), crossings_s, row.time_s


def form_error(form: str) -> float:
    """Root mean square of the logarithm of (published / start) of tables left out, as a factor."""
    started = tuple(name for name in TABLES if _has_start(name))
    misses = []
    for name in started:
        base_s, step_s = host_line(tuple(other for other in started if other != name), form)
        x, crossings_s, time_s = _point(name, form)
        misses.append(math.log(time_s / (base_s + x * step_s + crossings_s)) ** 2)
    return math.exp(math.sqrt(fmean(misses)))


def host_spread(tables: tuple[str, ...], *, is_first: bool) -> float:
    """Spread of starts: 80 % of the errors of tables that the line has not seen, each as heavy."""
    errors: list[tuple[float, float]] = []
    for name in tables:
        place = TABLES[name].places[0]
        if _is_first(name) is not is_first or place.nodes > 1:
            continue
        base_s, step_s = host_line(tuple(other for other in tables if other != name))
        misses = []
        for row in rows_of(name):
            steps, crossings_s = ring_way(row.kind, row.ranks, place.nodes)
            start_s = base_s + steps * step_s + crossings_s
            if start_s > _inside_s(row, place):
                misses.append(abs(math.log(row.time_s / start_s)))
        errors += [(miss, 1 / len(misses)) for miss in misses]
    total = sum(weight for _, weight in errors)
    reached = 0.0
    for miss, weight in sorted(errors):
        reached += weight / total
        if reached >= _INSIDE:
            return _spread(miss)
    return 0.0


def _spread(log_error: float) -> float:
    """The relative spread whose P90 is that far from the median."""
    return math.sqrt(math.expm1((log_error / _P90_SIGMAS) ** 2))


@cache
def _inside_s(row: Row, place: Place) -> float:
    node = fabric(place.instance, nodes=place.nodes, lnc=place.lnc)
    return time_on(node, row.kind, row.nbytes, [range(row.ranks)]).time_s


def rank_rate(tables: Sequence[str]) -> float:
    """The middle of the rates that the largest messages of these tables show."""
    rates = sorted(_rate_of(name) for name in tables)
    half = len(rates) // 2
    return rates[half] if len(rates) % 2 else geometric_mean(rates[half - 1 : half + 1])


@cache
def _rate_of(table: str) -> float:
    """Bytes per second of a rank with which the largest message takes the published time."""
    row, place = rows_of(table)[-1], TABLES[table].places[0]
    low, high = 1e9, 1e12
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        with _rates(middle):
            is_slower = floors_of(row, place).time_s(Floor.PROGRAM) > row.time_s
        low, high = (middle, high) if is_slower else (low, middle)
    return low


_HALVINGS: Final = 30


def floors_of(row: Row, place: Place) -> FloorTimes:
    """The fabric's times of a row, with the constants that are in force."""
    exchange.cache_clear()
    node = fabric(place.instance, nodes=place.nodes, lnc=place.lnc)
    return time_on(node, row.kind, row.nbytes, [range(row.ranks)]).floors


@contextmanager
def _rates(bytes_per_s: float) -> Generator[None]:
    """The first generation's ranks pass on `bytes_per_s`."""
    named = published_constants.rank_bytes_per_s

    def replaced(chip: str, cores: int, fallback: Rate) -> Rate:
        known = named(chip, cores, fallback)
        is_later = published_constants.has_described_algorithms(chip)
        return known if is_later else Rate(bytes_per_s, known.provenance)

    with patch("trnsim.fabric.fabric.rank_bytes_per_s", replaced):
        yield


@contextmanager
def in_force(given: Constants) -> Generator[None]:
    """The fabric's constants replaced by these."""
    starts = published_constants.start_s

    def base(chip: str, nodes: int = 1) -> Rate:
        is_first = not published_constants.has_described_algorithms(chip)
        spread = given.first_spread if is_first else given.later_spread
        spread = math.hypot(spread, _OVER_INSTANCES) if nodes > 1 else spread
        return Rate(given.base_s, Provenance(Evidence.DERIVED, "a fit", spread))

    def start(chip: str) -> Rate:
        is_later = published_constants.has_described_algorithms(chip)
        return Rate(given.inside_s, starts(chip).provenance) if is_later else starts(chip)

    with ExitStack() as stack:
        stack.enter_context(_rates(given.rank_bytes_per_s))
        stack.enter_context(patch("trnsim.fabric.fabric.start_s", start))
        stack.enter_context(patch("trnsim.fabric.floors.host_base_s", base))
        stack.enter_context(patch("trnsim.fabric.floors.HOST_STEP_S", given.step_s))
        yield


def judged(row: Row, places: Sequence[Place], given: Constants | None = None) -> Judged:
    """A row with the estimate of these constants; without, of the product's."""
    floor = TABLES[row.table].floor
    with ExitStack() as stack:
        if given is not None:
            stack.enter_context(in_force(given))
        times = [floors_of(row, place) for place in places]
        if given is not None and floor is Floor.PROGRAM:
            factor = Rate(1.0, Provenance(Evidence.ASSUMED, "a fit", given.inside_spread))
            stack.enter_context(patch("trnsim.fabric.floors.LATENCIES", factor))
        return Judged(row, times[0].time_s(floor), mixture(times, floor))


@cache
def in_sample() -> Mapping[str, tuple[Judged, ...]]:
    """By table its rows with the product's constants."""
    return {
        name: tuple(judged(row, table.places) for row in rows_of(name))
        for name, table in TABLES.items()
    }


@cache
def left_out() -> Mapping[str, tuple[Judged, ...]]:
    """By table its rows with the constants that the other tables give."""
    found = {}
    for name, table in TABLES.items():
        given = fit([other for other in TABLES if other != name])
        found[name] = tuple(judged(row, table.places, given) for row in rows_of(name))
    exchange.cache_clear()
    return found


def _ranks(place: Place) -> int:
    return fabric(place.instance, lnc=place.lnc).ranks


@cache
def anywhere() -> Mapping[str, tuple[Judged, ...]]:
    """By table of one instance its rows, if it may be of any of `ANYWHERE` that has the ranks."""
    found = {}
    for name, table in TABLES.items():
        if table.places[0].nodes == 1:
            ranks = rows_of(name)[0].ranks
            places = [place for place in ANYWHERE if _ranks(place) >= ranks]
            found[name] = tuple(judged(row, places) for row in rows_of(name))
    return found


if __name__ == "__main__":
    print(fit())  # noqa: T201  the constants of trnsim.fabric.constants
    for sample in (in_sample(), left_out()):
        inside = [case.is_inside for cases in sample.values() for case in cases]
        for name, cases in sample.items():
            print(name, [f"{c.estimate_s / _US:.1f} {c.error:+.0%} {c.is_inside}" for c in cases])  # noqa: T201
        print(sum(inside), len(inside))  # noqa: T201
