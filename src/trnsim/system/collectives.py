"""The time of one collective over NeuronLink: rings of chips, in closed form.

A ring passes shares of the message on, one hop at a time; an all-reduce goes round twice. Ranks are
taken for neighbours on their own links: two logical cores of one chip would be nearer, and links
that several rings share would be slower. Kinds without a closed form here have no time.

Source: aws-neuron-sdk, intranode-collective-comm.rst.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trnsim.system.platform import platform

if TYPE_CHECKING:
    from trnsim.facts import Rate

_ROUNDS: Final = {
    "allreduce": 2,
    "allreduce_coalesced": 2,
    "allgather": 1,
    "allgather_base": 1,
    "allgather_into_tensor_coalesced": 1,
    "reduce_scatter": 1,
    "reduce_scatter_base": 1,
    "reduce_scatter_tensor_coalesced": 1,
}
"""How often the whole message goes round the ring, by PyTorch's name of the collective."""


@dataclass(frozen=True)
class CollectiveTime:
    """A collective's time, and what it was computed from.

    Attributes:
        time_s: seconds.
        facts: bandwidth and latency of the links, with their provenance.
    """

    time_s: float
    facts: tuple[Rate, Rate]

    @property
    def origin(self) -> str:
        """Where the facts come from, in words."""
        return "; ".join(f"{f.provenance.kind.value}: {f.provenance.source}" for f in self.facts)


def collective_time(kind: str, nbytes: int, ranks: int, target: str) -> CollectiveTime | None:
    """``rounds (n-1) (bytes / n / bandwidth + hop)``, or None for a kind without a closed form.

    `nbytes` are those of the whole message: of the largest side that a rank gives or takes.
    """
    rounds = _ROUNDS.get(kind)
    if rounds is None:
        return None
    facts = platform(target).facts
    link, hop = facts["chip-to-chip bytes/s"], facts["chip-to-chip hop s"]
    steps = rounds * (ranks - 1)
    return CollectiveTime(steps * (nbytes / ranks / link + hop), (link, hop))
