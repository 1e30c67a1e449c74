"""Claims about Inferentia: its predecessor by Neuron's tables, GPUs by the planner."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from trnsim.system.claims.amounts import Amount, less_than
from trnsim.system.claims.chips import GIB, GUIDE, TERA
from trnsim.system.claims.gains import gain, peaks, planned
from trnsim.system.claims.published import P50_MS, RATES, stated
from trnsim.system.claims.rates import rate
from trnsim.system.claims.verdict import Claim, figure, number, stand_in
from trnsim.system.claims.workloads import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trnsim.system.claims.published import Published
    from trnsim.system.claims.rows import Pair, Rows
    from trnsim.system.claims.verdict import Given

_INF1: Final = "inf1.xlarge"
_INF2: Final = "inf2.xlarge"
_T4: Final = "g4dn.xlarge"
_CLAIMED_THROUGHPUT: Final = 2.3
_ON_DEMAND: Final = "on_demand"


def _names() -> list[str]:
    """Workloads of models that make no tokens."""
    return [one.name for one in WORKLOADS if one.does == "infer"]


def _hourly(rows: Rows, ours: str, theirs: str, text: str, times: float) -> Iterator[Given]:
    """How much less an hour costs, at `times` the throughput."""

    def saved(pair: Pair) -> Amount:
        return less_than(rows.usd(pair.ours), rows.usd(pair.theirs) * times)

    for pair in rows.pairs(ours, theirs, [_ON_DEMAND]):
        yield stand_in(f"{text}, {pair.text}", partial(saved, pair), caveats=pair.caveats)


def inf1(rows: Rows) -> Claim:
    """Throughput and USD per inference of inf1.xlarge against g4dn.xlarge, both of 2019."""

    def ratio(name: str) -> Callable[[], Amount]:
        return lambda: rate(rows, name, _INF1) / rate(rows, name, _T4)

    throughput = [
        figure(f"trnsim plan {name}, {_INF1} over {_T4}", ratio(name)) for name in _names()
    ]
    return Claim(
        "C27",
        GUIDE,
        "2,3-fach höheren Durchsatz und 70% niedrigere Kosten pro Inferenz",
        "Inf1 has 2.3x the throughput and 70 % lower cost per inference than GPU instances",
        (
            number("throughput", _CLAIMED_THROUGHPUT, "x", *throughput, is_varied=True),
            number(
                "cost per inference",
                70,
                "% less",
                *_hourly(rows, _INF1, _T4, "at the claimed throughput", _CLAIMED_THROUGHPUT),
                *planned(rows, _INF1, _T4, _ON_DEMAND, less_than, _names()),
                is_varied=True,
            ),
        ),
        notes=("prices of 2019 are not in the catalogue: the first are of 2023-09-18",),
    )


def _over(one: Published, other: Published) -> Amount:
    return one.amount / other.amount


def inf2_over_inf1(rows: Rows) -> Claim:
    """The Inferentia2 row, and Neuron's tables of both."""
    new, old = "inferentia2", "inferentia1"
    throughput = [figure(name, partial(_over, pair[1], pair[0])) for name, pair in RATES.items()]
    latency = [figure(name, partial(_over, *pair)) for name, pair in P50_MS.items()]
    return Claim(
        "C28",
        GUIDE,
        "190 TFLOPS FP16 ... 32 GB HBM ... 4-fach höheren Durchsatz und 10-fach niedrigere Latenz",
        "Inferentia2: 190 TFLOP/s FP16, 32 GB, 4x throughput and 10x lower latency than before",
        (
            number(
                "FP16 peak",
                190,
                "TFLOP/s",
                figure("row", lambda: rows.peak(new, "fp16") / TERA),
            ),
            number("HBM", 32, "GiB", figure("row", lambda: rows.memory(new) / GIB)),
            number(
                "throughput",
                4,
                "x",
                *throughput,
                stand_in("FP16 peaks", lambda: rows.peak(new, "fp16") / rows.peak(old, "fp16")),
                is_varied=True,
            ),
            number(
                "latency",
                10,
                "x lower",
                *latency,
                stand_in("bandwidths", lambda: rows.bandwidth(new) / rows.bandwidth(old)),
                is_varied=True,
            ),
        ),
        notes=("Neuron's tables are of SDK 2.20 for Inf1 and of 2.21 to 2.27 for Inf2",),
    )


def inf2(rows: Rows) -> Claim:
    """Work per USD of inf2.xlarge over g5.xlarge, g6.xlarge and g4dn.xlarge, on demand."""
    gpus = ("g5.xlarge", "g6.xlarge")
    model = [
        given
        for theirs in gpus
        for given in planned(rows, _INF2, theirs, _ON_DEMAND, gain, _names())
    ]
    return Claim(
        "C30",
        GUIDE,
        "Inf2-Instanzen liefern 40% besseres Preis-Leistungs-Verhältnis",
        "Inf2 has 40 % better price-performance than comparable instances",
        (
            number(
                "work per USD",
                40,
                "% more",
                *peaks(rows, _INF2, gpus, [_ON_DEMAND], gain),
                *peaks(rows, _INF2, (_T4,), [_ON_DEMAND], gain, [("fp16", "fp16")]),
                *model,
                is_varied=True,
            ),
        ),
    )


def customers(rows: Rows) -> Claim:
    """What AWS's customers report; nobody else has measured it."""
    del rows
    return Claim(
        "C32",
        GUIDE,
        "56% Kostenreduktion ... 2-fach schnellere Antwortzeiten bei 50% Inferenzkostenreduktion",
        "Metagenomi saved 56 %; Rufus became twice as fast at half the cost",
        (
            number("Metagenomi, cost", 56, "% less", "Metagenomi's own report, with its inputs"),
            number(
                "Rufus, response time",
                2,
                "x faster",
                stated("Rufus, response time", "by parallel decoding, over decoding without it"),
            ),
            number(
                "Rufus, cost", 50, "% less", stated("Rufus, cost", "as Amazon reports of itself")
            ),
        ),
        notes=(
            "Rufus runs on Trainium and Inferentia2, and decoding in parallel is what made it fast",
        ),
    )


CLAIMS: Final[tuple[Callable[[Rows], Claim], ...]] = (inf1, inf2_over_inf1, inf2, customers)
