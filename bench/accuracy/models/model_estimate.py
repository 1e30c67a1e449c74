"""The time of a graph on a chip, what no time can be below, and exchanges between ranks."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace

from trnsim import compiler
from trnsim.compiler import Flags
from trnsim.fabric.collective_time import collective_time
from trnsim.lower import bound, without_exchanges


@dataclass
class Estimate:
    """What a graph takes on one rank.

    Attributes:
        seconds: of the device, without exchanges.
        launch_s: its start.
        products_s: its products at the peak.
        hbm_s: what must cross HBM, at a core's share of its stack.
        flop: of its products.
        weight_bytes: of its weights.
        exchanges: kind, bytes and ranks of each exchange.
        missing: operators without a time.
        hbm_bytes: that must cross HBM.
    """

    seconds: float
    launch_s: float
    products_s: float
    hbm_s: float
    flop: float
    weight_bytes: int
    exchanges: list = field(default_factory=list)
    missing: list = field(default_factory=list)
    hbm_bytes: int = 0

    def as_dict(self):
        """For a file."""
        return asdict(self)


def estimate(graph, target, *, weights=frozenset(), lnc=1, cast="none"):
    """(seconds of the device, of the launch) of a graph of one rank, without exchanges."""
    flags = Flags(auto_cast=cast)
    found = compiler.compile(graph, target, lnc=lnc, flags=flags, weights=weights, is_linked=False)
    return found.device_time_s, found.launch_s


def whole(made, target, lnc, cast, fewer=()):
    """What a `ModelGraph` takes, and its bound.

    `fewer` are its graphs for one prompt and for two, and how many there are: each prompt beyond
    the second takes what the second one adds.
    """
    options = {"weights": made.weights, "lnc": lnc}
    if fewer:
        one, two, batch = fewer
        first, second = (
            estimate(given.graph, target, cast=cast, weights=given.weights, lnc=lnc)
            for given in (one, two)
        )
        seconds, launch_s = first[0] + (batch - 1) * (second[0] - first[0]), first[1]
    else:
        seconds, launch_s = estimate(made.graph, target, cast=cast, **options)
    return replace(least(made, target, lnc, cast), seconds=seconds, launch_s=launch_s)


def least(made, target, lnc, cast):
    """The bound of a `ModelGraph` and what is exchanged in it, without a time."""
    _, exchanges = without_exchanges(made.graph)
    found = bound(made.graph, target, weights=made.weights, lnc=lnc, is_cast=cast != "none")
    return Estimate(
        0.0,
        0.0,
        found.products_s,
        found.hbm_s,
        found.flop,
        sum(v.type.nbytes for v in made.graph.inputs if v.number in made.weights),
        [(one.kind, one.nbytes, one.ranks) for one in exchanges],
        list(made.missing),
        found.hbm_bytes,
    )


def exchange_s(exchange, target, latency_s):
    """The latency of a small exchange inside an instance, and its bytes over the links."""
    return latency_s + links_s(exchange, target) if exchange[2] > 1 else 0.0


def links_s(exchange, target):
    """What an exchange takes beside its latency: its bytes, by the fastest algorithm."""
    kind, nbytes, ranks = exchange
    asked = [collective_time(kind, one, ranks, target).time_s for one in (nbytes, 0)]
    return asked[0] - asked[1]
