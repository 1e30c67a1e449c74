"""The time of one collective over NeuronLink: a ring of chips, in closed form.

A ring passes shares of the message on, one hop at a time, with all links busy at once. AWS
describes the ring of all-gather, reduce-scatter and all-reduce; the other collectives are composed
of the same steps here, and marked as assumed. Ranks are assumed to be neighbours with links of
their own: two logical cores of one chip would be nearer, and links that several rings share would
be slower. For small messages AWS's library chooses faster algorithms (mesh, recursive doubling).

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
    """The steps of a collective round a ring of n ranks, its message cut into n shares.

    Attributes:
        steps: number of hops, one after another.
        shares: number of shares that pass the busiest link.
        provenance: the source of this form.
    """

    steps: Ranks
    shares: Ranks
    provenance: Provenance


@dataclass(frozen=True)
class CollectiveTime:
    """A collective's time, and the inputs of the computation.

    Attributes:
        time_s: seconds.
        form: the source of its form.
        facts: bandwidth of the ring and latency of a hop, with their provenance.
    """

    time_s: float
    form: Provenance
    facts: tuple[Rate, Rate]

    @property
    def origin(self) -> str:
        """The sources of form and facts, as text."""
        found = (self.form, *(fact.provenance for fact in self.facts))
        return "; ".join(f"{one.kind.value}: {one.source}" for one in found)


def collective_time(kind: str, nbytes: int, ranks: int, target: str) -> CollectiveTime | None:
    """``steps hop + shares (bytes / n) / bandwidth``, or None for a kind without a closed form.

    The bandwidth is the ring's. Zero for one rank. `nbytes` is the size of the whole message: the larger of a rank's input and
    output. An all-to-all of unequal parts is timed as if they were equal.
    """
    form = FORMS.get(kind)
    if form is None:
        return None
    facts = platform(target).facts
    ring, hop = facts["ring bytes/s"], facts["chip-to-chip hop s"]
    time_s = form.steps(ranks) * hop + form.shares(ranks) * nbytes / ranks / ring
    return CollectiveTime(time_s if ranks > 1 else 0.0, form.provenance, (ring, hop))


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


_GATHER: Final = Form(_once, _once, _documented("ring all-gather: every share goes round once"))
_SCATTER: Final = Form(
    _once, _once, _documented("ring reduce-scatter: every share goes round once")
)
_ALL_REDUCE: Final = Form(
    _twice, _twice, _documented("ring all-reduce: reduce-scatter, then all-gather")
)
_ALL_TO_ALL: Final = Form(
    _once, _every_distance, _assumed("each share goes round to its rank, k links to the k-th")
)
_ONE_HOP: Final = Form(
    lambda _: 1.0, lambda ranks: ranks, _assumed("the message goes to a neighbour as a whole")
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
    "broadcast": Form(_twice, _twice, _assumed("scatter, then all-gather")),
    "reduce": Form(_twice, _twice, _assumed("reduce-scatter, then gather")),
    "gather": Form(_once, _once, _assumed("shares go on to the root, the nearest first")),
    "scatter": Form(_once, _once, _assumed("shares leave the root, the farthest first")),
    **dict.fromkeys(("alltoall", "alltoall_base"), _ALL_TO_ALL),
    **dict.fromkeys(("send", "recv", "recv_any_source"), _ONE_HOP),
    "barrier": Form(_twice, lambda _: 0.0, _assumed("an all-reduce of nothing")),
}
"""By PyTorch's name of the collective, without underscores."""
