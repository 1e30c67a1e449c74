"""The time of one collective over NeuronLink, in closed form: a latency, and a ring's bytes.

A ring passes shares of the message on with all links busy at once. AWS describes the ring of
all-gather, reduce-scatter and all-reduce; the other collectives are composed of the same steps
here, and marked as assumed. Ranks are assumed to be neighbours with links of their own: two logical
cores of one chip would be nearer, and links that several rings share would be slower.

A ring's hops would add up, but AWS's library takes shorter ways for small messages: a mesh below 1
MB, recursive doubling up to 56 MB. So the latency is one constant, whatever the number of ranks.
Ranks of the first generation pass on a seventh to a quarter of what their links carry, as AWS's own
all-reduce shows; of later ones no large message is published, and the links decide.

Source: aws-neuron-sdk, intranode-collective-comm.rst, nccom-test.rst.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trnsim.facts import Evidence, Provenance
from trnsim.system.platform import platform

if TYPE_CHECKING:
    from trnsim.facts import Rate

Ranks = Callable[[int], float]
"""A function of the number of ranks."""


@dataclass(frozen=True)
class Form:
    """A collective round a ring of n ranks, its message cut into n shares.

    Attributes:
        shares: number of shares that pass the busiest link.
        provenance: the source of this form.
        is_a_hop: whether the message goes to a neighbour and no further.
    """

    shares: Ranks
    provenance: Provenance
    is_a_hop: bool = False


@dataclass(frozen=True)
class CollectiveTime:
    """A collective's time, and the inputs of the computation.

    Attributes:
        time_s: seconds.
        least_s: seconds of its bytes over the links at their published bandwidth.
        form: the source of its form.
        facts: bandwidth of the ring and latency, with their provenance.
    """

    time_s: float
    least_s: float
    form: Provenance
    facts: tuple[Rate, Rate]

    @property
    def origin(self) -> str:
        """The sources of form and facts, as text."""
        found = (self.form, *(fact.provenance for fact in self.facts))
        return "; ".join(f"{one.kind.value}: {one.source}" for one in found)


def collective_time(kind: str, nbytes: int, ranks: int, target: str) -> CollectiveTime | None:
    """``latency + shares (bytes / n) / bandwidth``, or None for a kind without a closed form.

    The bandwidth is the ring's. Zero for one rank. `nbytes` is the size of the whole message: the
    larger of a rank's input and output. An all-to-all of unequal parts is timed as if they were
    equal.
    """
    form = FORMS.get(kind)
    if form is None:
        return None
    facts = platform(target).facts
    ring, links = facts["ring bytes/s"], facts["chip-to-chip bytes/s"]
    latency = facts["chip-to-chip hop s" if form.is_a_hop else "exchange latency s"]
    passed = form.shares(ranks) * nbytes / ranks if ranks > 1 else 0.0
    time_s = latency + passed / ring if ranks > 1 else 0.0
    return CollectiveTime(time_s, passed / links, form.provenance, (ring, latency))


def _once(ranks: int) -> float:
    return ranks - 1


def _twice(ranks: int) -> float:
    return 2 * (ranks - 1)


def _every_distance(ranks: int) -> float:
    """``1 + 2 + ... + (n-1)``: the share for the k-th neighbour passes k links."""
    return ranks * (ranks - 1) / 2


def _documented(algorithm: str) -> Provenance:
    return Provenance(
        Evidence.DOCUMENTED, f"{algorithm} (aws-neuron-sdk, intranode-collective-comm.rst)"
    )


def _assumed(how: str) -> Provenance:
    return Provenance(Evidence.ASSUMED, f"{how}; AWS describes no ring for it")


_GATHER: Final = Form(_once, _documented("ring all-gather: every share goes round once"))
_SCATTER: Final = Form(_once, _documented("ring reduce-scatter: every share goes round once"))
_ALL_REDUCE: Final = Form(_twice, _documented("ring all-reduce: reduce-scatter, then all-gather"))
_ALL_TO_ALL: Final = Form(
    _every_distance, _assumed("each share goes round to its rank, k links to the k-th")
)
_ONE_HOP: Final = Form(
    lambda ranks: ranks, _assumed("the message goes to a neighbour as a whole"), is_a_hop=True
)

FORMS: Final[dict[str, Form]] = {
    **dict.fromkeys(("allreduce", "allreduce_coalesced"), _ALL_REDUCE),
    **dict.fromkeys(
        (
            "allgather",
            "allgather_base",
            "allgather_coalesced",
            "allgather_into_tensor_coalesced",
        ),
        _GATHER,
    ),
    **dict.fromkeys(
        ("reduce_scatter", "reduce_scatter_base", "reduce_scatter_tensor_coalesced"), _SCATTER
    ),
    "broadcast": Form(_twice, _assumed("scatter, then all-gather")),
    "reduce": Form(_twice, _assumed("reduce-scatter, then gather")),
    "gather": Form(_once, _assumed("shares go on to the root, the nearest first")),
    "scatter": Form(_once, _assumed("shares leave the root, the farthest first")),
    **dict.fromkeys(("alltoall", "alltoall_base"), _ALL_TO_ALL),
    **dict.fromkeys(("send", "recv", "recv_any_source"), _ONE_HOP),
    "barrier": Form(lambda _: 0.0, _assumed("an all-reduce of nothing")),
}
"""By PyTorch's name of the collective, without underscores."""
