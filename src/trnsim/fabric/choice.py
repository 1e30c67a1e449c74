"""The choice of a collective's algorithm: the one with the shortest time in closed form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from trnsim.errors import BadInput
from trnsim.fabric import direct, hierarchical, kangaring, mesh, rdh, ring
from trnsim.fabric.closed_form import time_s
from trnsim.fabric.constants import has_described_algorithms
from trnsim.fabric.fabric import Fabric
from trnsim.fabric.group import RankGroup
from trnsim.fabric.transfers import Plan, side_by_side

Planner = Callable[[RankGroup, float], Plan]
Predicate = Callable[[RankGroup], bool]


class Algorithm(NamedTuple):
    """An algorithm of a collective.

    Attributes:
        name: AWS's name for it.
        plan: function from (group, bytes of the whole message) to its transfers.
        is_possible: predicate of the groups that can use it.
    """

    name: str
    plan: Planner
    is_possible: Predicate


@dataclass(frozen=True)
class AlgorithmChoice:
    """A collective with its chosen algorithm.

    Attributes:
        algorithm: its name; "" where there is nothing to do.
        time_s: seconds in closed form, the start included.
        others_s: seconds of the other algorithms, by name.
    """

    algorithm: str
    plan: Plan
    time_s: float
    others_s: dict[str, float]


def choose(
    fabric: Fabric, kind: str, nbytes: float, groups: Sequence[Sequence[int]]
) -> AlgorithmChoice:
    """The best algorithm for a collective of groups of ranks, which all work at once.

    Args:
        fabric: the fabric of the ranks.
        kind: one of `KINDS`.
        nbytes: bytes of the whole message: the larger of a rank's input and output.
        groups: the ranks of each group, all of one size.

    Raises:
        BadInput: for an unknown kind.
    """
    if kind not in KINDS:
        raise BadInput(f"collective {kind!r}", fix=f"one of {', '.join(KINDS)}")
    members = [RankGroup(fabric, tuple(ranks)) for ranks in groups]
    if members[0].size == 1 or kind == "barrier":
        wait_s = 0.0 if members[0].size == 1 else fabric.start_s
        return AlgorithmChoice("", (), wait_s, {})
    return best_of(kind, members, nbytes)


def best_of(kind: str, groups: Sequence[RankGroup], nbytes: float) -> AlgorithmChoice:
    """The best algorithm of groups of more than one rank, which all work at once."""
    plans = {
        algorithm.name: side_by_side([algorithm.plan(group, nbytes) for group in groups])
        for algorithm in KINDS[kind]
        if all(algorithm.is_possible(group) for group in groups)
    }
    times = {name: time_s(groups[0].fabric, plan) for name, plan in plans.items()}
    name = min(times, key=lambda algorithm: times[algorithm])
    shortest_s = times.pop(name)
    return AlgorithmChoice(name, plans[name], shortest_s, times)


def _stage(kind: str, groups: Sequence[RankGroup], nbytes: float) -> Plan:
    """The plan of a stage of a hierarchical collective; nothing for groups of one rank."""
    return () if groups[0].size == 1 else best_of(kind, groups, nbytes).plan


def _is_described(group: RankGroup) -> bool:
    """True if AWS describes more than a ring for it: inside an instance, from Trn2 on."""
    if group.is_local:
        return has_described_algorithms(group.fabric.chip.name)
    return len(group.by_node) == group.size


def _described_only(is_possible: Predicate) -> Predicate:
    return lambda group: _is_described(group) and is_possible(group)


def _always(group: RankGroup) -> bool:
    del group
    return True


def _hierarchical(plan: Callable[[RankGroup, float, hierarchical.BestPlan], Plan]) -> Algorithm:
    def plan_stages(group: RankGroup, nbytes: float) -> Plan:
        return plan(group, nbytes, _stage)

    return Algorithm("hierarchical", plan_stages, hierarchical.is_possible)


def _sequence(first: Planner, second: Planner) -> Planner:
    return lambda group, nbytes: (*first(group, nbytes), *second(group, nbytes))


def _direct_algorithms(plan: Planner) -> tuple[Algorithm, ...]:
    return (Algorithm("direct", plan, _always),)


_DESCRIBED_FILES: Final = (
    ("ring", ring, _always),
    ("kangaring", kangaring, _described_only(kangaring.is_possible)),
    ("mesh", mesh, _described_only(mesh.is_possible)),
    ("rdh", rdh, _described_only(rdh.is_possible)),
)
"""The algorithms that AWS describes, one file each, with an all-gather and a reduce-scatter."""


def _plan_of(file: Any, kind: str) -> Planner:
    """The function of a file for a kind; an all-reduce is a reduce-scatter, then an all-gather."""
    if kind == "all_reduce":
        return _sequence(file.reduce_scatter, file.all_gather)
    plan: Planner = getattr(file, kind)
    return plan


def _described_algorithms(kind: str) -> tuple[Algorithm, ...]:
    algorithms = [
        Algorithm(name, _plan_of(file, kind), test) for name, file, test in _DESCRIBED_FILES
    ]
    return (*algorithms, _hierarchical(getattr(hierarchical, kind)))


KINDS: Final[dict[str, tuple[Algorithm, ...]]] = {
    "all_gather": _described_algorithms("all_gather"),
    "reduce_scatter": _described_algorithms("reduce_scatter"),
    "all_reduce": (
        *_described_algorithms("all_reduce"),
        Algorithm("single-step mesh", mesh.all_reduce_at_once, _described_only(mesh.is_possible)),
    ),
    "all_to_all": _direct_algorithms(direct.all_to_all),
    "permute": _direct_algorithms(direct.permute),
    "send": _direct_algorithms(direct.send),
    "scatter": _direct_algorithms(direct.scatter),
    "gather": _direct_algorithms(direct.gather),
    "broadcast": _direct_algorithms(_sequence(direct.scatter, ring.all_gather)),
    "reduce": _direct_algorithms(_sequence(ring.reduce_scatter, direct.gather)),
    "barrier": (),
}
"""The algorithms of each kind."""
