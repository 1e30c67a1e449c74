"""Implicit permutes: each rank sends to the next rank of a ring that the runtime chooses.

Each channel has a ring of its own: a cycle of links through the group's chips, in one direction. So
the next rank in a ring need not be the next in the group's list. The instruction
collective_permute_implicit_current_processing_rank_id tells a kernel whose data has arrived.

Source: nki.collectives.collective_permute_implicit, Channels.
"""

from __future__ import annotations

import numpy as np

from trnsim.arch import NeuronCore
from trnsim.dtypes import Array, round_to, to_float32
from trnsim.fabric.exchange import rings
from trnsim.isa.collectives.channels import check_channels
from trnsim.isa.collectives.collective import Collective, MemberArrays, flat
from trnsim.isa.collectives.dimensions import check_elements
from trnsim.isa.collectives.reduction import check_operator
from trnsim.isa.collectives.setting import Groups
from trnsim.isa.language.declaration import reads_many, writes_many
from trnsim.isa.language.instruction import HBM, SBUF, Dims
from trnsim.isa.language.modes import Engine
from trnsim.isa.language.operator_tables import ALU
from trnsim.memory import Tile


class ImplicitPermute(Collective, engines=()):
    """Common base of the two implicit permutes: their channels and rings."""

    kind = "permute"

    def targets(self) -> tuple[Tile, ...]:
        """The destination of each channel."""
        dsts: tuple[Tile, ...] = getattr(self, "dsts_by_channel", ())
        return dsts

    def check(self, core: NeuronCore, n: Dims) -> None:
        """Channels are numbered from 0 on; each has one tensor.

        - At most 4 channels for groups with all devices of a node, else 2.
        """
        super().check(core, n)
        channels: tuple[int, ...] = getattr(self, "channel_ids", ())
        if channels != tuple(range(len(channels))) or not channels:
            self.refuse(
                f"channel_ids={list(channels)}; legal: consecutive numbers from 0 on",
                "name the channels [0], [0, 1] and so on",
            )
        if len(channels) != len(self.targets()):
            self.refuse(
                f"{len(self.targets())} tensors for {len(channels)} channels; legal: one for each",
                "give a list with one tensor for each channel",
            )
        for group in self.groups():
            check_channels(self, self.setting, group, channels)

    def rings(self) -> Groups:
        """The rings of all channels of all groups."""
        count = len(self.targets())
        return tuple(
            ring for group in self.groups() for ring in rings(self.setting.fabric, group)[:count]
        )

    def message_tensors(self) -> int:
        """1: each channel exchanges its tensor by itself."""
        return 1

    def nbytes(self) -> float:
        """Bytes of a rank's message on one channel, all its cores included."""
        return super().nbytes() / max(len(self.targets()), 1)

    def arrays_of_previous_ranks(
        self, group: tuple[int, ...], arrays: MemberArrays
    ) -> MemberArrays:
        """For each member and channel, the array of the previous rank in the channel's ring."""
        results: list[list[Array]] = [[] for _ in group]
        for channel, ring in enumerate(rings(self.setting.fabric, group)[: len(self.targets())]):
            for member, rank in enumerate(group):
                previous_member = group.index(ring[ring.index(rank) - 1])
                results[member].append(arrays[previous_member][channel])
        return results


class CollectivePermuteImplicit(
    ImplicitPermute,
    engines=(Engine.collective,),
    source="nki.collectives.collective_permute_implicit",
    is_in_nki_isa=False,
):
    """``dst = src of the previous rank in the ring``, for each channel."""

    srcs_by_channel: tuple[Tile, ...] = reads_many(HBM, SBUF)
    dsts_by_channel: tuple[Tile, ...] = writes_many(HBM, SBUF)
    replica_group: tuple[tuple[int, ...], ...]
    channel_ids: tuple[int, ...] = (0,)

    def check(self, core: NeuronCore, n: Dims) -> None:
        """Src and dst have equal sizes."""
        super().check(core, n)
        check_elements(self, 1, 1)

    def sources(self) -> tuple[Tile, ...]:
        """The source of each channel."""
        return self.srcs_by_channel

    def received_arrays(self, group: tuple[int, ...], offers: MemberArrays) -> MemberArrays:
        """The arrays of the previous rank of each ring, bit for bit."""
        return self.arrays_of_previous_ranks(group, [list(map(flat, arrays)) for arrays in offers])


class CollectivePermuteImplicitReduce(
    ImplicitPermute,
    engines=(Engine.collective,),
    source="nki.collectives.collective_permute_implicit_reduce",
    is_in_nki_isa=False,
):
    """``dst = op(src0, src1) of the previous rank in the ring``, for each channel."""

    srcs0_by_channel: tuple[Tile, ...] = reads_many(HBM, SBUF)
    srcs1_by_channel: tuple[Tile, ...] = reads_many(HBM, SBUF)
    dsts_by_channel: tuple[Tile, ...] = writes_many(HBM, SBUF)
    replica_group: tuple[tuple[int, ...], ...]
    op: str
    channel_ids: tuple[int, ...] = (0,)

    def check(self, core: NeuronCore, n: Dims) -> None:
        """`op` is add, minimum or maximum; src0, src1 and dst have equal sizes and one dtype."""
        super().check(core, n)
        check_operator(self, self.op, self.srcs0_by_channel)
        check_elements(self, 1, 1)
        srcs0, srcs1 = self.srcs0_by_channel, self.srcs1_by_channel
        if [(t.dtype, t.shape, t.memory) for t in srcs0] != [
            (t.dtype, t.shape, t.memory) for t in srcs1
        ]:
            self.refuse(
                f"srcs0 are {', '.join(map(str, srcs0))} and srcs1 {', '.join(map(str, srcs1))}"
                "; legal: equal shapes, dtypes and memories",
                "reduce tensors of one kind",
            )

    def sources(self) -> tuple[Tile, ...]:
        """The first operand of each channel; `all_sources` has both."""
        return self.srcs0_by_channel

    def all_sources(self) -> tuple[Tile, ...]:
        """The first operands of all channels, then the second ones."""
        return self.srcs0_by_channel + self.srcs1_by_channel

    def details(self) -> str:
        """The operator, on which all members must agree."""
        return f"op={self.op}"

    def received_arrays(self, group: tuple[int, ...], offers: MemberArrays) -> MemberArrays:
        """The previous rank's reduction, computed in float32 and rounded once before it is sent."""
        channels = len(self.srcs0_by_channel)
        apply = ALU[self.op].apply
        reductions = [
            [
                round_to(
                    apply(to_float32(arrays[channel]), to_float32(arrays[channels + channel])),
                    self.srcs0_by_channel[channel].dtype,
                )
                for channel in range(channels)
            ]
            for arrays in offers
        ]
        return self.arrays_of_previous_ranks(group, reductions)

    def received_flags(self, group: tuple[int, ...], flags: MemberArrays) -> MemberArrays:
        """Flags of the elements that the previous rank has written in both operands."""
        channels = len(self.srcs0_by_channel)
        written_in_both = [
            [
                np.logical_and(*pair)
                for pair in zip(arrays[:channels], arrays[channels:], strict=True)
            ]
            for arrays in flags
        ]
        return self.arrays_of_previous_ranks(group, written_in_both)
