"""Exchanges between ranks as instructions of a rank's program, which take the time of the links.

An exchange runs on the CC-Core at the same time as instructions that do not depend on it: "the
compiler allows independent instruction scheduling except where explicit dependencies exist". The
places of its ranks follow from the groups of the graph and TRNSIM_INSTANCE. A program is that of
one rank, and only its time is computed, no values. The other ranks are assumed to reach the
exchange at the same time. As in plans, the instance's ranks outside the groups are assumed to run
copies of the program.

The first generation is excepted: its latency is fitted to what a collective adds to a step of a
whole model, so there the time of exchanges is added to a step.

Source: neuron-runtime/explore/compute-comm-overlap.rst, Overlap Between Compute and Communication.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trnsim import arch
from trnsim.arch import NeuronCore
from trnsim.fabric.constants import has_described_algorithms
from trnsim.fabric.exchange import with_replicas
from trnsim.graph import Node
from trnsim.graph.ops import collectives as ops
from trnsim.isa import Collective, Engine
from trnsim.isa.collectives.setting import Groups, Setting
from trnsim.isa.language.declaration import reads, writes
from trnsim.isa.language.instruction import HBM, Dims
from trnsim.isa.language.machine import Machine
from trnsim.lower import exchange
from trnsim.memory import Tile
from trnsim.place.links.program import program_fabric, usual_instance
from trnsim.program import current_core

_SOURCE: Final = "neuron-runtime/explore/compute-comm-overlap.rst"


class RankExchange(Collective, engines=(), source=_SOURCE):
    """``dst`` = the result for this rank of an exchange of ``src`` in a group of ranks."""

    dst: Tile = writes("", HBM)
    src: Tile = reads("", HBM)
    ranks: Groups
    message_bytes: int

    def __init_subclass__(cls, *, opcode: str) -> None:
        """An exchange that no kernel can issue, so it is not registered."""
        super().__init_subclass__(engines=(), source=_SOURCE, opcode=opcode)
        cls.engines = (Engine.collective,)

    def sources(self) -> tuple[Tile, ...]:
        """The tensor that the rank sends."""
        return (self.src,)

    def targets(self) -> tuple[Tile, ...]:
        """The tensor that the rank receives."""
        return (self.dst,)

    def groups(self) -> Groups:
        """The groups of ranks."""
        return self.ranks

    def rings(self) -> Groups:
        """The groups of this program and of its copies on the other ranks of the instance."""
        return with_replicas(self.setting.fabric, self.ranks)

    def nbytes(self) -> float:
        """Bytes of a rank's message: the sum over the cores that exchange its parts."""
        return float(self.message_bytes)

    def check(self, core: NeuronCore, n: Dims) -> None:
        """Accept any layout: the graph has been checked."""

    def execute(self, machine: Machine) -> None:
        """Do nothing: the program has no values."""


class _AllReduce(RankExchange, opcode="all_reduce"):
    kind = "all_reduce"


class _AllGather(RankExchange, opcode="all_gather"):
    kind = "all_gather"


class _ReduceScatter(RankExchange, opcode="reduce_scatter"):
    kind = "reduce_scatter"


class _AllToAll(RankExchange, opcode="all_to_all"):
    kind = "all_to_all"


class _Permute(RankExchange, opcode="collective_permute"):
    kind = "permute"


_KINDS: Final[dict[type, type[RankExchange]]] = {
    ops.AllReduce: _AllReduce,
    ops.AllGather: _AllGather,
    ops.ReduceScatter: _ReduceScatter,
    ops.AllToAll: _AllToAll,
    ops.CollectivePermute: _Permute,
}


@dataclass(frozen=True, slots=True)
class RankLinks:
    """The links that the exchanges of a rank's program use.

    Attributes:
        lnc: NeuronCores of a rank.
        cores: number of those NeuronCores that run the program; each of two exchanges a half.
    """

    chip: str
    lnc: int
    cores: int
    instance: str

    def issue(self, dst: Tile, src: Tile, node: Node) -> None:
        """Issue the exchange of a graph's operation, from `src` to `dst`."""
        rank_exchange = exchange(node)
        fabric = program_fabric(self.chip, rank_exchange.groups, self.lnc, self.instance)
        setting = Setting(fabric, fabric.ranks, is_joint=self.cores < self.lnc)
        kind = _KINDS[type(node.operation)]
        nbytes = rank_exchange.nbytes * self.cores
        current_core().issue(kind(dst, src, rank_exchange.groups, nbytes, setting=setting))


def links_of(target: str, lnc: int, cores: int) -> RankLinks | None:
    """The links of ranks on a chip; None where exchange times are added to a step's instead."""
    chip = arch.target(target).chip
    if not has_described_algorithms(chip):
        return None
    return RankLinks(chip, lnc, cores, usual_instance(chip))
