"""The time of one collective: the ranks' places, the best algorithm, its closed form."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import inf

from trnsim import arch
from trnsim.arch import INSTANCE_VARIABLE
from trnsim.arch.catalogue import Instance, catalogue
from trnsim.errors import BadInput
from trnsim.fabric.choice import AlgorithmChoice
from trnsim.fabric.closed_form import latency_s
from trnsim.fabric.closed_form import time_s as plan_time_s
from trnsim.fabric.constants import (
    EFA_HOP_S,
    HOST_STEP_S,
    hop_s,
    host_base_s,
    rank_bytes_per_s,
    start_s,
)
from trnsim.fabric.exchange import exchange
from trnsim.fabric.fabric import Fabric
from trnsim.fabric.floors import Floor, FloorTimes, floor_times
from trnsim.fabric.group import RankGroup
from trnsim.fabric.transfers import Transfer, phase
from trnsim.facts import Interval, Provenance, Rate
from trnsim.formatting import clipped

_SHOWN_CHARS = 60
"""Characters of a group in an error."""


@dataclass(frozen=True)
class CollectiveTime:
    """A collective's time and its sources.

    Attributes:
        floors: its time inside a program, and as a program that the host starts.
        floor: the one of `floors` that it takes.
        least_s: seconds of the bytes that must leave a chip, over all its links at once.
        algorithm: its algorithm; "" for a single rank or a barrier.
        placed_on: the instances on which its ranks lie.
        provenances: sources of links, engines and latencies.
    """

    floors: FloorTimes
    floor: Floor
    least_s: float
    algorithm: str
    placed_on: str
    provenances: tuple[Provenance, ...]

    @property
    def time_s(self) -> float:
        """Seconds."""
        return self.floors.time_s(self.floor)

    @property
    def interval(self) -> Interval:
        """P10, P50 and P90 of its seconds."""
        return self.floors.interval(self.floor)

    @property
    def origin(self) -> str:
        """Algorithm, place, floor and sources, as text."""
        place_text = f"{self.algorithm} on {self.placed_on}" if self.algorithm else self.placed_on
        place_text = f"{place_text}, {self.floors.paid(self.floor)}"
        sources = dict.fromkeys(
            f"{provenance.kind.value}: {provenance.source}" for provenance in self.provenances
        )
        return "; ".join([place_text, *sources])


def collective_time(
    kind: str,
    nbytes: float,
    groups: int | Sequence[Sequence[int]],
    chip: str,
    *,
    lnc: int = 0,
    floor: Floor = Floor.PROGRAM,
    instance: str = "",
) -> CollectiveTime:
    """The time of a collective of groups of ranks, which work at once.

    Args:
        kind: one of `trnsim.fabric.choice.KINDS`.
        nbytes: bytes of the whole message: the larger of a rank's input and output.
        groups: the ranks of each group; a number stands for one group of the first ranks.
        chip: the target, a name of `trnsim.arch.TARGETS`.
        lnc: NeuronCores of a rank; the chip's default where it is 0.
        floor: inside a running program, or as a program that the host starts.
        instance: the instance type where TRNSIM_INSTANCE names none; the smallest that has the
            ranks where it is "".

    Raises:
        BadInput: for an unknown kind or chip, a number of bytes below 0, a group without ranks, an
            `lnc` that the chip does not have, or an instance type that is unknown or of another
            chip.
    """
    if isinstance(groups, int):
        groups = [range(groups)]
    ranks = tuple(tuple(group) for group in groups)
    target = arch.target(chip)
    _check_message(nbytes, ranks)
    largest_lnc = int(target.core.logical_core_max)
    if not 0 <= lnc <= largest_lnc:
        raise BadInput(
            f"lnc={lnc} on {target.name}; legal: 1 to {largest_lnc}, and 0 for {largest_lnc}"
        )
    cores = lnc or largest_lnc
    instance_name = os.environ.get(INSTANCE_VARIABLE, "") or instance
    return _time(kind, float(nbytes), ranks, target.chip, cores, instance_name, floor)


def _check_message(nbytes: float, groups: Sequence[Sequence[int]]) -> None:
    """Check the bytes and the groups of a collective.

    Raises:
        BadInput: for bytes that are negative, infinite or NaN, for no group, and for a group that
            is empty, has a rank twice or one below 0.
    """
    if not 0 <= nbytes < inf:
        raise BadInput(f"a collective of {nbytes} bytes; legal: a number from 0")
    if not groups:
        raise BadInput("a collective without groups of ranks; legal: 1 and more")
    for group in groups:
        if not group or len(set(group)) < len(group) or min(group) < 0:
            shown = clipped(str(list(group)), _SHOWN_CHARS)
            raise BadInput(f"a collective of ranks {shown}; legal: different ranks from 0")


def floors_of(
    fabric: Fabric,
    kind: str,
    nbytes: float,
    algorithm: AlgorithmChoice,
    layouts: Iterable[tuple[int, int]],
) -> FloorTimes:
    """The times by floor of a collective with its algorithm.

    Args:
        fabric: the fabric of the ranks.
        kind: kind of the collective.
        nbytes: bytes of the whole message.
        algorithm: the algorithm of its slowest groups, with its time.
        layouts: ranks of a group, and instances that they are on.
    """
    latencies_s = min(latency_s(fabric, algorithm.plan) or algorithm.time_s, algorithm.time_s)
    bytes_s = algorithm.time_s - latencies_s
    return floor_times(fabric.chip.name, kind, nbytes, layouts, latencies_s, bytes_s)


@cache
def _time(
    kind: str,
    nbytes: float,
    groups: tuple[tuple[int, ...], ...],
    chip: str,
    lnc: int,
    instance_name: str,
    floor: Floor,
) -> CollectiveTime:
    fabric = fabric_for(chip, max(map(max, groups)) + 1, lnc, instance_name)
    return time_on(fabric, kind, nbytes, groups, floor)


def time_on(
    fabric: Fabric,
    kind: str,
    nbytes: float,
    groups: Sequence[Sequence[int]],
    floor: Floor = Floor.PROGRAM,
) -> CollectiveTime:
    """The time of a collective of groups of ranks of `fabric`, which work at once."""
    members = tuple(tuple(group) for group in groups)
    exchanged = exchange(fabric, kind, float(nbytes), members)
    chosen = exchanged.slowest
    facts = constants_of(fabric, has_bytes=bool(chosen.algorithm), floor=floor)
    layouts = [(sum(counts), nodes) for counts, nodes in exchanged.chosen]
    return CollectiveTime(
        floors_of(fabric, kind, nbytes, chosen, layouts),
        floor,
        max(least_s(fabric, kind, nbytes, group) for group in groups),
        chosen.algorithm,
        f"{fabric.nodes} x {fabric.instance.name}",
        tuple(fact.provenance for fact in facts.values()),
    )


def transfers_time(
    fabric: Fabric,
    kind: str,
    nbytes: float,
    groups: Sequence[Sequence[int]],
    transfers: Iterable[Transfer],
    floor: Floor = Floor.PROGRAM,
) -> CollectiveTime:
    """The time of a collective whose ranks send each other these bytes, all at once.

    Args:
        fabric: the fabric of the ranks.
        kind: kind of the collective, whose start the host pays.
        nbytes: bytes of the whole message, on which the time of the start depends.
        groups: the ranks of each group.
        transfers: what they send.
        floor: inside a running program, or as a program that the host starts.
    """
    sent_transfers = [transfer for transfer in transfers if transfer.nbytes]
    plan = (phase(sent_transfers),) if sent_transfers else ()
    chosen = AlgorithmChoice("direct", plan, plan_time_s(fabric, plan), {})
    facts = constants_of(fabric, has_bytes=bool(sent_transfers), floor=floor)
    layouts = [
        (len(group), len(RankGroup(fabric, tuple(group)).by_node)) for group in groups if group
    ]
    return CollectiveTime(
        floors_of(fabric, kind, nbytes, chosen, layouts),
        floor,
        _least_sent_s(fabric, sent_transfers),
        chosen.algorithm,
        f"{fabric.nodes} x {fabric.instance.name}",
        tuple(fact.provenance for fact in facts.values()),
    )


def _least_sent_s(fabric: Fabric, transfers: Iterable[Transfer]) -> float:
    """Seconds of the bytes that leave the chip with most, over all its links and adapters."""
    chips = [fabric.place(rank)[:2] for rank in range(fabric.ranks)]
    bytes_by_chip: dict[tuple[int, int], float] = {}
    for source, target, nbytes, _ in transfers:
        chip = chips[source]
        if chip != chips[target]:
            bytes_by_chip[chip] = bytes_by_chip.get(chip, 0.0) + nbytes
    return max(bytes_by_chip.values()) / _chip_bytes_per_s(fabric) if bytes_by_chip else 0.0


def fabric_for(
    chip: str,
    ranks: int,
    lnc: int,
    instance_name: str = "",
    *,
    ranks_per_node: int = 0,
    first: int = 0,
    stride: int = 1,
    factors: Mapping[str, float] | None = None,
) -> Fabric:
    """The fabric of `ranks`: the instance of that name, else the smallest that holds them all.

    If none does, as many of the largest with EFA as are needed. With `ranks_per_node`, one instance
    for each node, of the smallest type that holds these.

    Raises:
        BadInput: for an instance of another chip, or one that is too small.
    """
    row = catalogue().accelerator(chip)
    per_chip = row.cores // lnc
    if instance_name:
        instance = catalogue().instance(instance_name)
        if instance.accelerator != chip:
            raise BadInput(
                f"{INSTANCE_VARIABLE}={instance_name} has {instance.accelerator}; "
                f"this runs on {chip}",
                fix=f"name an instance with {chip}, or unset {INSTANCE_VARIABLE}",
            )
    else:
        core_count = first + ranks_per_node * stride if ranks_per_node else ranks
        instance = _smallest(chip, core_count, per_chip, has_peers=0 < ranks_per_node < ranks)
    node_ranks = ranks_per_node or instance.count * per_chip
    nodes = -(-ranks // node_ranks)
    return Fabric(instance, nodes, lnc, ranks_per_node, first, stride, factors or {})


def _smallest(chip: str, ranks: int, per_chip: int, *, has_peers: bool = False) -> Instance:
    """The smallest instance that holds the ranks; one with EFA where it `has_peers`."""
    candidates = [
        row for row in catalogue().instances.values() if row.accelerator == chip and row.shape
    ]
    possible_rows = [
        row
        for row in candidates
        if row.count * per_chip >= ranks and (row.efa_bytes_per_s or not has_peers)
    ]
    if possible_rows:
        return min(possible_rows, key=lambda row: row.count)
    with_efa = [row for row in candidates if row.efa_bytes_per_s and not _is_ultraserver(row)]
    return max(with_efa or candidates, key=lambda row: row.count)


def _is_ultraserver(instance: Instance) -> bool:
    return "UltraServer" in instance.name


def least_s(fabric: Fabric, kind: str, nbytes: float, group: Sequence[int]) -> float:
    """Seconds of bytes that must leave a chip, over all links and adapters; 0 on one chip."""
    chips = len({fabric.place(rank)[:2] for rank in group})
    if chips == 1 or kind == "barrier":
        return 0.0
    per_chip = len(group) / chips
    shares = {"all_reduce": 2.0, "all_to_all": per_chip, "permute": 0.0, "send": 0.0}
    share = shares.get(kind, 1.0) * (1 - 1 / chips)
    return nbytes * (share or 1.0) / _chip_bytes_per_s(fabric)


def _chip_bytes_per_s(fabric: Fabric) -> float:
    """Bytes per second that leave a chip, over all its links and its part of the adapters."""
    rate = float(fabric.topology.chip_bytes_per_s)
    if fabric.nodes > 1:
        rate += (fabric.instance.efa_bytes_per_s or 0.0) / fabric.instance.count
    return rate


def constants_of(
    fabric: Fabric, *, has_bytes: bool = True, floor: Floor = Floor.PROGRAM
) -> dict[str, Rate]:
    """The constants behind a time on a fabric, by name; bandwidths only if it `has_bytes`.

    A link's bandwidth is that of both directions, as published.
    """
    chip = fabric.chip
    constants = {
        "collective_start_s": start_s(chip.name),
        "collective_hop_s": hop_s(chip.name),
    }
    if floor is Floor.HOST:
        constants["collective_host_base_s"] = host_base_s(chip.name)
        constants["collective_host_step_s"] = HOST_STEP_S
    if has_bytes:
        constants["collective_rank_bytes_per_s"] = rank_bytes_per_s(
            chip.name, fabric.lnc, chip.memory_bytes_per_s
        )
        constants["collective_hbm_bytes_per_s"] = chip.memory_bytes_per_s
        link = fabric.instance.link_bytes_per_s or chip.server_link_bytes_per_s
        link = link or chip.link_bytes_per_s
        if link:
            constants["collective_link_bytes_per_s"] = link
    if fabric.nodes > 1:
        constants["collective_efa_hop_s"] = EFA_HOP_S
        efa = fabric.instance.efa_bytes_per_s
        if has_bytes and efa:
            constants["collective_efa_bytes_per_s"] = efa
    return constants
