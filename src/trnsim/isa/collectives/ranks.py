"""Registers that hold the number of this rank, or of the rank whose data came over a ring."""

from __future__ import annotations

from dataclasses import field

from trnsim.arch import NeuronCore
from trnsim.fabric.exchange import rings
from trnsim.isa.collectives.channels import check_channels
from trnsim.isa.collectives.setting import HIDDEN, Setting
from trnsim.isa.control.register import RegisterInstruction, VirtualRegister
from trnsim.isa.language.declaration import HIDDEN_REGISTER
from trnsim.isa.language.instruction import Dims
from trnsim.isa.language.machine import Machine
from trnsim.isa.language.modes import Engine


class RankId(
    RegisterInstruction,
    engines=(Engine.sync,),
    source="nki.collectives.rank_id",
    is_in_nki_isa=False,
):
    """The number of the rank that runs the kernel, in a new register.

    Note:
        AWS publishes no cost; that of other registers is assumed.
    """

    dst: VirtualRegister = field(kw_only=True, metadata=HIDDEN_REGISTER)

    def execute(self, machine: Machine) -> None:
        """The number of the rank, from 0 on."""
        link = machine.world(self.opcode)
        self.dst.put(link.rank, link.number_was_read)


class CollectivePermuteImplicitCurrentProcessingRankId(
    RegisterInstruction,
    engines=(Engine.sync,),
    source="nki.collectives.collective_permute_implicit_current_processing_rank_id",
    is_in_nki_isa=False,
):
    """The rank whose data has arrived after `iteration_id` implicit permutes, in a new register.

    With iteration_id 0 it is this rank, with 1 the previous rank in the channel's ring, and so on.

    Note:
        AWS publishes no cost; that of other registers is assumed.
    """

    dst: VirtualRegister = field(kw_only=True, metadata=HIDDEN_REGISTER)
    iteration_id: int
    replica_group: tuple[tuple[int, ...], ...]
    channel_id: int = 0
    setting: Setting = field(kw_only=True, metadata=HIDDEN)

    def check(self, core: NeuronCore, n: Dims) -> None:
        """`iteration_id` is 0 or more, `channel_id` one of the group's channels."""
        del core, n
        if self.iteration_id < 0:
            self.refuse(
                f"iteration_id={self.iteration_id}; legal: 0 or more", "count the steps from 0"
            )
        for group in self.replica_group:
            check_channels(self, self.setting, group, (self.channel_id,))

    def execute(self, machine: Machine) -> None:
        """The rank that is `iteration_id` places before this rank in the ring."""
        link = machine.world(self.opcode)
        rank = link.rank
        if not link.is_among({member for group in self.replica_group for member in group}):
            self.refuse(
                f"no group has rank {rank}; legal: groups with every rank",
                "name the groups of the implicit permute",
                "nki.collectives.ReplicaGroup",
            )
        group = next(ranks for ranks in self.replica_group if rank in ranks)
        ring = rings(self.setting.fabric, group)[self.channel_id]
        source_rank = ring[(ring.index(rank) - self.iteration_id) % len(ring)]
        self.dst.put(source_rank, link.number_was_read)
