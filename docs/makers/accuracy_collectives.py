"""docs/generated/accuracy-collectives.md: published times and the fabric's, algorithms by size.

The times are AWS's examples for nccom-test, whose page says that they are not up to date and names
no instance but one. `collective_fit` has the rows, the constants fitted to them, and the fits that
have not seen a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Final

from collective_fit import (
    FORMS,
    TABLES,
    Judged,
    Place,
    anywhere,
    fit,
    form_error,
    in_sample,
    left_out,
)

from trnsim.fabric.choice import KINDS
from trnsim.fabric.closed_form import time_s
from trnsim.fabric.fabric import Fabric, fabric
from trnsim.fabric.group import RankGroup
from trnsim.formatting import markdown_table

_US: Final = 1e-6
_THOUSAND: Final = 1000
_MB: Final = 1e6
_SMALLEST, _LARGEST, _HALVINGS = 1e3, 1e10, 50

DOCUMENTED_MB: Final = (("mesh", "rdh", 1.0), ("rdh", "kangaring", 56.0))
"""Messages at which the next algorithm is the better one, on a full Trn2 instance.

Source: aws-neuron-sdk, intranode-collective-comm.rst, Algorithm Summary.
"""


def crossover_bytes(made: Fabric, kind: str, shorter: str, longer: str) -> float:
    """The message of all ranks from which `longer` is faster than `shorter`, by bisection."""
    whole = RankGroup(made, tuple(range(made.ranks)))
    named = {one.name: one for one in KINDS[kind]}
    low, high = _SMALLEST, _LARGEST
    for _ in range(_HALVINGS):
        middle = (low * high) ** 0.5
        first, second = (time_s(made, named[one].plan(whole, middle)) for one in (shorter, longer))
        low, high = (middle, high) if first < second else (low, middle)
    return low


def page() -> str:
    """The page in Markdown."""
    node = fabric("trn2.48xlarge", lnc=2)
    crossings = [
        [
            kind,
            f"{shorter} to {longer}",
            f"{documented:g}",
            f"{(found := crossover_bytes(node, kind, shorter, longer) / _MB):.1f}",
            f"{max(found / documented, documented / found):.1f}",
        ]
        for kind in ("all_gather", "reduce_scatter", "all_reduce")
        for shorter, longer, documented in DOCUMENTED_MB
    ]
    given = fit()
    samples = {"in sample": in_sample(), "left out": left_out(), "any instance": anywhere()}
    return _PAGE.format(
        tables=markdown_table(
            ["table", "collective", "ranks", "taken to be of", "floor", "rows", "median error %",
             "inside", "left out: median error %", "inside"],
            [_table_row(name) for name in TABLES],
        ),
        rows=markdown_table(
            ["table", "bytes", "published us", "us", "error %", "P10 to P90", "inside",
             "left out: us", "error %", "P10 to P90", "inside"],
            [_row(*pair) for name in TABLES for pair in _pairs(name)],
        ),
        inside="; ".join(f"{name} {_inside(sample)}" for name, sample in samples.items()),
        forms=", ".join(f"{form} {form_error(form):.1f}" for form in FORMS),
        base=given.base_s / _US,
        step=given.step_s / _US,
        first=given.first_spread,
        later=given.later_spread,
        rate=given.rank_bytes_per_s / 1e9,
        crossings=markdown_table(
            ["collective", "algorithms", "documented MB", "fabric MB", "factor"], crossings
        ),
    )  # fmt: skip


def _pairs(table: str) -> Iterable[tuple[Judged, Judged]]:
    return zip(in_sample()[table], left_out()[table], strict=True)


def _table_row(name: str) -> list[str]:
    table, cases, unseen = TABLES[name], in_sample()[name], left_out()[name]
    row = cases[0].row
    return [
        name.removeprefix("nccom-"),
        row.kind,
        str(row.ranks),
        " or ".join(map(_place_text, table.places)),
        table.floor.value,
        str(len(cases)),
        f"{100 * median(abs(case.error) for case in cases):.0f}",
        _count(cases),
        f"{100 * median(abs(case.error) for case in unseen):.0f}",
        _count(unseen),
    ]


def _place_text(place: Place) -> str:
    nodes = f"{place.nodes} x " if place.nodes > 1 else ""
    return f"{nodes}{place.instance}{', LNC=2' if place.lnc > 1 else ''}"


def _row(case: Judged, unseen: Judged) -> list[str]:
    row = case.row
    return [
        row.table.removeprefix("nccom-"),
        f"{row.nbytes:,}",
        f"{row.time_s / _US:,.6g}",
        *_judged_cells(case),
        *_judged_cells(unseen),
    ]


def _judged_cells(case: Judged) -> list[str]:
    low, high = case.interval.p10 / _US, case.interval.p90 / _US
    return [
        _us_text(case.estimate_s / _US),
        f"{100 * case.error:+.0f}",
        f"{_us_text(low)} to {_us_text(high)}",
        "yes" if case.is_inside else "no",
    ]


def _us_text(time_us: float) -> str:
    return f"{time_us:.3g}" if time_us < _THOUSAND else f"{time_us:,.0f}"


def _count(cases: Sequence[Judged]) -> str:
    return f"{sum(case.is_inside for case in cases)} of {len(cases)}"


def _inside(sample: Mapping[str, Sequence[Judged]]) -> str:
    cases = [case for judged in sample.values() for case in judged]
    return f"{_count(cases)} ({100 * sum(case.is_inside for case in cases) / len(cases):.0f} %)"


_PAGE = """# Published times of collectives

Made from the source (`make docs`). The published times are all 33 of AWS's examples for nccom-test
that the project has; two latencies (15 us over EFA, 1 to 2 us a hop on Trn2) are constants. AWS's
page says that its times are not up to date, and names one instance (two trn1.32xlarge). Two tables
contradict each other: by one command an all-gather of 1 KiB over 32 ranks takes 6.16 or 151 us.

A collective has two floors. **Inside a program**, as an exchange of a compiled graph or a kernel,
it takes its transfers and their latencies. As **a program of its own**, which nccom-test and eager
ranks run, it takes at least as long as the host needs to start it; the host starts the next one
while one runs, so the longer of the two counts. Nothing says which table has which. A table is
taken to have the host's start if its least time is above any latency inside a program: the 6.16 us
are inside a program, the other six tables are not. A later version of AWS's page says that the tool
puts several collectives into a program, which would share one start; its first example is the same.

| constant | value | from |
|---|---|---|
| base of the host's start | {base:.1f} us | least times of five tables |
| each step of a ring of all ranks | {step:.2f} us | the same |
| spread of a start, first generation | {first:.0%} | 80 % of their errors, each table left out |
| spread of a start, other chips | {later:.0%} | the same; 30 % more in squares over instances |
| a step over EFA | 15 us | documented, not fitted |
| a chunk of a ring over instances | 512 bytes | assumed |
| latency inside a program, first generation | 37 us | 56 rows ([models](accuracy-models.md)) |
| start inside a program, other chips | 3.16 us | the table of 6.16 us, less two hops |
| rate that a rank passes on, first generation | {rate:.1f} GB/s | the middle of three tables |

The line through the starts is the least sum of absolute errors of logarithms, which here is the
line through two tables, all-reduce over 2 ranks and the slower all-gather over 32. It gives 64
ranks on two instances 503 us, where 520 were published. With each table left out, starts are off by
these factors (root mean square) if they grow with {forms}.
Why a start should grow with steps is not published; the form was chosen with all tables in sight.

Errors are (estimate - published) / published. Left out: with the constants that the other tables
give. P10 to P90 are over the instances that a table may be of.

{tables}

Inside P10 to P90: {inside}.
The last is what intervals would be if no hint of an instance were believed: trn1.32xlarge or
trn2.48xlarge with one or two cores a rank, equally likely.

{rows}

What the estimates miss. The all-reduce over 16 ranks takes 300 us up to 8 KiB and 574 us at
128 KiB, for which no rate of links or engines is low enough: three of its eight rows lie outside.
On chips after the first generation every published slope is lower than the fabric's, by factors of
1.5 (512 MiB, if of one core a rank) to 6 (half a MiB over 32 ranks). Their links are documented and
their instances are not, so no rate is fitted to them; beside these rows the fabric's times of bytes
are the least that can be. 64 KiB over two instances are 48 % too long: the estimate waits for EFA
at every step of the ring.

## Where algorithms change

For a full Trn2 instance (64 ranks of two cores) AWS gives a range of messages for each algorithm.
The fabric does not use these ranges: it takes the algorithm with the shortest time.

{crossings}

The change from mesh to recursive doubling comes later than documented. It is where the bytes saved
make up for three more hops: in an all-gather at 1.4 MB for a hop of 1 us and at 2.9 MB for one of
2 us, AWS's own range. The fabric takes the middle of that range.
"""
