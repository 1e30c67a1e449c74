"""The common base of collectives: groups, operands, the meeting of ranks, and the time.

A collective runs on CC-Cores, processors beside the engines that start the transfers of each step,
so it overlaps with instructions that do not depend on it. All members of a group start together
when the last one is ready. The time is that of the best algorithm on the network, with all groups
exchanging at once (`trnsim.fabric.exchange`).

An unwritten element of a source arrives unwritten. The reduction of an unwritten element is
unwritten.

With two cores in a rank (LNC=2) both cores issue the collective. If its tensors are in shared HBM,
both cores are one member of the group. If they are in SBUF or private HBM, core 0 exchanges with
the cores 0 of other ranks and core 1 with the cores 1, at the same time.

While a collective runs, its transfers occupy the part `Cost.engine_share` of the core's DMA engines
(`trnsim.timing.contention`).

Source: neuron-runtime/about/collectives.rst; neuron-runtime/explore/intranode-collective-comm.rst.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import field
from functools import partial
from typing import ClassVar

import numpy as np

from trnsim.arch import NeuronCore
from trnsim.dtypes import Array
from trnsim.fabric.exchange import engine_bytes, exchange
from trnsim.isa.collectives.setting import HIDDEN, Groups, Setting, in_words
from trnsim.isa.dma.dma_copy import check_priority
from trnsim.isa.language.instruction import HBM, SBUF, Cost, Dims, Instruction
from trnsim.isa.language.machine import Machine
from trnsim.isa.language.meeting import Exchange, Meeting, meeting_of
from trnsim.memory import Tile

_MATRIX = 2
MemberArrays = Sequence[Sequence["Array"]]
"""By member of a group, in the group's order, the arrays that it offers or receives."""


class Collective(Instruction, engines=()):
    """Common base of the collectives.

    Attributes:
        kind: the name of the collective in `trnsim.fabric`.
        priority: priority of its DMA transfers, 0 (highest) to 3; None for the default.
        setting: the ranks and their network; the run sets it.
    """

    meets_ranks = True
    kind: ClassVar[str] = ""
    priority: int | None = field(default=None, kw_only=True)
    setting: Setting = field(kw_only=True, metadata=HIDDEN)

    # Declared by each collective

    def sources(self) -> tuple[Tile, ...]:
        """The tensors that it offers, each with a destination among `targets`."""
        return getattr(self, "srcs", ())

    def all_sources(self) -> tuple[Tile, ...]:
        """`sources`, and the tensors that it offers without a destination of their own."""
        return self.sources()

    def targets(self) -> tuple[Tile, ...]:
        """The tensors that it fills."""
        return getattr(self, "dsts", ())

    def groups(self) -> Groups:
        """The groups of ranks; each group exchanges among its own members."""
        return getattr(self, "replica_group", ())

    def received_arrays(self, group: tuple[int, ...], offers: MemberArrays) -> MemberArrays:
        """The arrays that each member of a group receives, as stored.

        Args:
            group: the ranks of the group.
            offers: by member, the arrays that it offers.
        """
        raise NotImplementedError

    def received_flags(self, group: tuple[int, ...], flags: MemberArrays) -> MemberArrays:
        """Flags of written elements for each received array; by default moved like the values.

        Args:
            group: the ranks of the group.
            flags: by member, for each array that it offers, a boolean per element.
        """
        return self.received_arrays(group, flags)

    def details(self) -> str:
        """The parameters, besides shapes, dtypes and group, on which members must agree: text."""
        return ""

    # Common to all collectives

    def check(self, core: NeuronCore, n: Dims) -> None:
        """The groups have each rank of the run once; collective_permute may leave ranks out.

        - All tensors are in HBM or all in SBUF; several together only in HBM.
        - Each source has the dtype of its destination.
        - `priority` is 0 to 3, from v4 on.
        - No tensor is an argument or a result of the kernel: compiler errors NCC_IBIR440 and
          checkCollective.
        """
        del n
        check_priority(self, core, self.priority)
        self._check_groups()
        self._check_tensors()

    def group_of(self, rank: int) -> tuple[int, ...]:
        """The group that contains `rank`."""
        return next(group for group in self.groups() if rank in group)

    def label(self, group: Sequence[int]) -> str:
        """The collective and its operands in words; equal for all members."""
        sources = ", ".join(f"{t.dtype} {list(t.shape)}" for t in self.sources())
        targets = ", ".join(f"{list(t.shape)}" for t in self.targets())
        details = self.details()
        return (
            f"{self.opcode}{f'({details})' if details else ''} of {sources} to {targets} in "
            f"{self._memory_text()} in group [{in_words(group)}]"
        )

    def meeting(self, core: int) -> Meeting:
        """The meeting of the group's cores, numbered ``rank * cores per rank + core of the rank``.

        Args:
            core: the waiting core in this numbering.
        """
        group = self.group_of(core // self.setting.cores)
        return meeting_of(self.members(core), core, self.label(group))

    def members(self, core: int) -> list[int]:
        """The cores that `core` meets, itself included, numbered as in `meeting`."""
        rank, core_of_rank = divmod(core, self.setting.cores)
        return self.setting.members(self.group_of(rank), core_of_rank)

    def execute(self, machine: Machine) -> None:
        """Every member offers its sources; each receives what the exchange makes of them."""
        link = machine.world(self.opcode)
        self.check_internal()
        results = self.meet(link.rank, machine)
        if results is None:
            return
        targets = self.targets()
        for index, tile in enumerate(targets):
            tile.put(results[index])
            if len(results) == len(targets):
                tile.mark_written()
            else:
                tile.mark_written_where(results[len(targets) + index])

    def meet(self, rank: int, machine: Machine) -> Sequence[Array] | None:
        """The arrays that this core receives once its group is complete; None without values."""
        group = self.group_of(rank)
        has_values = all(tile.storage.data is not None for tile in self.all_sources())
        link = machine.world(self.opcode)
        results = link.exchange(
            Exchange(
                self.label(group),
                group,
                self.setting.is_joint,
                self.offered_arrays if has_values else list,
                partial(self.results, group) if has_values else _no_results,
                self.groups(),
            )
        )
        return results if has_values else None

    def offered_arrays(self) -> list[Array]:
        """The source arrays as stored; then an array of written flags for each source.

        Without the flags if every element of every source is written.
        """
        sources = self.all_sources()
        arrays = [tile.bits() for tile in sources]
        if all(tile.is_written() for tile in sources):
            return arrays
        return arrays + [tile.written_flags() for tile in sources]

    def results(self, group: tuple[int, ...], offers: MemberArrays) -> MemberArrays:
        """By member, the received arrays; then an array of written flags for each of them.

        Without the flags if no member offers any.
        """
        count = len(self.all_sources())
        values = self.received_arrays(group, [arrays[:count] for arrays in offers])
        if all(len(arrays) == count for arrays in offers):
            return values
        sent_flags = [
            arrays[count:] or [np.ones(array.shape, np.bool_) for array in arrays]
            for arrays in offers
        ]
        received_flags = self.received_flags(group, sent_flags)
        return [[*arrays, *flags] for arrays, flags in zip(values, received_flags, strict=True)]

    def fully_written_tiles(self) -> Iterable[Tile]:
        """Empty: which elements of targets are written is known once all members have offered."""
        return ()

    def elements_written_after(self, tile: Tile, flags: Array) -> list[tuple[Tile, Array]] | None:
        """Empty, as `fully_written_tiles` is; None for a source without any written element."""
        del tile
        return [] if flags.any() else None

    def message_tensors(self) -> int:
        """Number of source tensors that are exchanged together, as one message."""
        return len(self.sources())

    def nbytes(self) -> float:
        """Bytes of the message of a rank, all its cores included.

        The message of a core is its sources or its targets, whichever is larger.
        """
        source_bytes, target_bytes = (
            sum(tile.nbytes for tile in tiles) for tiles in (self.sources(), self.targets())
        )
        messages = 1 if self.setting.is_joint else self.setting.cores
        return float(max(source_bytes, target_bytes)) * messages

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """The time of the best algorithm: start, hops and bytes, while all groups exchange at once.

        The DMA engines are occupied while they copy the bytes that the busiest rank passes on.
        """
        del n
        arguments = self.setting.fabric, self.kind, self.nbytes(), self.rings()
        time_s = exchange(*arguments).time_s
        copy_s = engine_bytes(*arguments) / (core.dma_bytes_per_s * self.setting.cores)
        tiles = (*self.all_sources(), *self.targets())
        hbm_bytes = sum(tile.nbytes for tile in tiles if tile.memory is HBM)
        sharing_cores = self.setting.cores if self.setting.is_joint else 1
        return Cost(
            time_s,
            0.0,
            hbm_bytes=hbm_bytes // sharing_cores,
            engine_share=copy_s / time_s if time_s else 0.0,
        )

    def rings(self) -> Groups:
        """The groups, each in the order in which the network connects its ranks."""
        return self.groups()

    def _memory_text(self) -> str:
        """The memory of its tensors in words, and whether the cores of a rank share them."""
        tiles = (*self.all_sources(), *self.targets())
        if any(tile.memory is SBUF for tile in tiles):
            return "SBUF"
        if self.setting.cores == 1:
            return "HBM"
        return "shared HBM" if self.setting.is_joint else "private HBM"

    def _check_groups(self) -> None:
        """Refuse groups that do not have each rank of the run exactly once."""
        groups, ranks = self.groups(), self.setting.ranks
        members = [rank for group in groups for rank in group]
        legal = f"each of the ranks 0 to {ranks - 1} in one group"
        repeated_ranks = sorted(rank for rank, count in Counter(members).items() if count > 1)
        unknown_ranks = sorted({rank for rank in members if not 0 <= rank < ranks})
        absent_ranks = sorted(set(range(ranks)) - set(members))
        if unknown_ranks:
            fault = f"name rank {in_words(unknown_ranks)}, of {ranks} ranks"
        elif repeated_ranks:
            fault = f"overlap: rank {in_words(repeated_ranks)} is in several places"
        elif absent_ranks:
            fault = f"leave out rank {in_words(absent_ranks)}"
        elif not all(groups):
            fault = "have one without ranks"
        else:
            return
        groups_text = ", ".join(f"[{in_words(group)}]" for group in groups if group)
        self.refuse(
            f"the groups {groups_text} {fault}; legal: {legal}",
            "give each rank one group; a rank with nobody to talk to has a group of its own",
            "nki.collectives.ReplicaGroup",
        )

    def _check_tensors(self) -> None:
        """Refuse sources and targets that differ in number, memory or dtype."""
        sources, targets = self.sources(), self.targets()
        if len(sources) != len(targets):
            self.refuse(
                f"{len(sources)} sources and {len(targets)} destinations; legal: as many of both",
                "give each source a destination",
            )
        memories = {tile.memory for tile in (*self.all_sources(), *targets)}
        if len(memories) > 1:
            self.refuse(
                f"tensors in {' and '.join(sorted(m.value for m in memories))}; legal: all in HBM "
                "or all in SBUF",
                "copy the others with nisa.dma_copy",
            )
        for source, target in zip(sources, targets, strict=True):
            if source.dtype != target.dtype:
                self.refuse(
                    f"a source is {source} and its destination {target}; legal: equal dtypes",
                    "allocate the destination with the dtype of the source",
                )
        if memories == {SBUF}:
            self._check_on_chip(sources, targets)

    def _check_on_chip(self, sources: Sequence[Tile], targets: Sequence[Tile]) -> None:
        """Refuse several tensors in SBUF, and tensors in SBUF without two dimensions."""
        if self.message_tensors() > 1:
            self.refuse(
                f"{len(sources)} tensors in SBUF; legal: one in SBUF, several in HBM",
                "issue a collective for each, or copy them to HBM",
            )
        for tile in (*sources, *targets):
            if len(tile.shape) != _MATRIX:
                self.refuse(
                    f"a tensor is {tile}; legal in SBUF: two dimensions",
                    "reshape the free dimensions to one",
                )

    def check_internal(self) -> None:
        """Refuse arguments of the kernel, and mark the tensors as exchanged."""
        for tile in (*self.all_sources(), *self.targets()):
            if tile.storage.is_argument:
                self.refuse(
                    f"{tile} is an argument of the kernel; legal: tensors that the kernel "
                    "allocates",
                    "copy it with nisa.dma_copy to a tensor made by nl.ndarray(..., "
                    "buffer=nl.shared_hbm, name=...)",
                    "compiler error in checkCollective: a collective cannot access IO tensors",
                )
            tile.storage.is_exchanged = True


def _no_results(offers: MemberArrays) -> MemberArrays:
    """By member, no arrays: the results in a run without values."""
    return [() for _ in offers]


def flat(bits: Array) -> Array:
    """The elements of `bits` in row-major order, [elements], as a copy."""
    return np.array(bits).reshape(-1)
