"""docs/generated/accuracy-collectives.md: published times and the fabric's, algorithms by size.

The times are AWS's examples for nccom-test, whose page says that they are not up to date and does
not name the instances. Ranks are taken to be the first of the smallest instance that has them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from trnsim.fabric.choice import KINDS
from trnsim.fabric.closed_form import time_s
from trnsim.fabric.collective_time import collective_time
from trnsim.fabric.fabric import Fabric, fabric
from trnsim.fabric.group import RankGroup
from trnsim.formatting import markdown_table

_US: Final = 1e-6
_MB: Final = 1e6
_SMALLEST, _LARGEST, _HALVINGS = 1e3, 1e10, 50


class Published(NamedTuple):
    """A published collective.

    Attributes:
        kind: its kind.
        ranks: how many took part.
        nbytes: the message.
        chip: the chip that it is taken to be of.
        time_us: microseconds.
        is_in_sample: whether a constant of the fabric comes from it.
    """

    kind: str
    ranks: int
    nbytes: int
    chip: str
    time_us: float
    is_in_sample: bool = False


PUBLISHED: Final = (
    Published("all_reduce", 2, 1024, "trn1", 58),
    Published("all_reduce", 2, 4096, "trn1", 58),
    Published("all_reduce", 2, 16_384, "trn1", 58),
    Published("all_reduce", 2, 262_144, "trn1", 60),
    Published("all_reduce", 2, 1_048_576, "trn1", 68),
    Published("all_reduce", 2, 4_194_304, "trn1", 107),
    Published("all_reduce", 2, 67_108_864, "trn1", 1_214),
    Published("all_reduce", 2, 268_435_456, "trn1", 4_750),
    Published("all_reduce", 2, 1_073_741_824, "trn1", 18_930, is_in_sample=True),
    Published("all_gather", 32, 1024, "trn2", 6.16, is_in_sample=True),
    Published("all_gather", 32, 8192, "trn2", 6.48),
    Published("all_gather", 32, 65_536, "trn2", 8.17),
    Published("all_gather", 32, 524_288, "trn2", 23.16),
)
"""Source: aws-neuron-sdk, tools/neuron-sys-tools/nccom-test.rst."""
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
    rows = [_row(one) for one in PUBLISHED]
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
    return _PAGE.format(
        rows=markdown_table(
            ["collective", "ranks", "bytes", "chip", "published us", "fabric us", "error %", ""],
            rows,
        ),
        crossings=markdown_table(
            ["collective", "algorithms", "documented MB", "fabric MB", "factor"], crossings
        ),
    )


def _row(one: Published) -> list[str]:
    found = collective_time(one.kind, one.nbytes, one.ranks, one.chip)
    took_us = found.time_s / _US
    return [
        one.kind,
        str(one.ranks),
        f"{one.nbytes:,}",
        one.chip,
        f"{one.time_us:,g}",
        f"{took_us:,.2f}",
        f"{100 * (took_us / one.time_us - 1):+.0f}",
        "in sample" if one.is_in_sample else found.algorithm,
    ]


_PAGE = """# Published times of collectives

Made from the source (`make docs`). The published times are AWS's examples for nccom-test. That page
says that they are not up to date, and names no instance. The 2-rank all-reduce is assumed to run on
the two cores of a chip of the first generation, the 32-rank all-gather on the first cores of Trn2.
Errors are (fabric - published) / published; a constant comes from each row in sample.

{rows}

Estimates of small messages of the first generation are too short: their latency is the 37 us that
decoding of whole models shows ([Accuracy of models](accuracy-models.md)), and nccom-test's 58 us
may include the start of a program. The estimate of the last row is 39 % of the published time,
whose slope is 31 GB/s a rank. On the 32 cores of a first-generation instance, whose ranks pass on
57 GB/s, a mesh would take 14 us for these bytes, near the published 15. The instance is not known,
so no constant is fitted to this row.

## Where algorithms change

For a full Trn2 instance (64 ranks of two cores) AWS gives a range of messages for each algorithm.
The fabric does not use these ranges: it takes the algorithm with the shortest time.

{crossings}

The change from mesh to recursive doubling comes later than documented. It is where the bytes saved
make up for three more hops: in an all-gather at 1.4 MB for a hop of 1 us and at 2.9 MB for one of
2 us, AWS's own range. The fabric takes the middle of that range.
"""
