"""Collectives that only move data: all_gather, all_to_all and collective_permute."""

from __future__ import annotations

import numpy as np

from trnsim.arch import NeuronCore
from trnsim.isa.collectives.collective import Collective, MemberArrays, flat
from trnsim.isa.collectives.dimensions import check_dimension, check_elements
from trnsim.isa.collectives.setting import Groups
from trnsim.isa.language.declaration import reads_many, writes_many
from trnsim.isa.language.instruction import HBM, SBUF, Dims
from trnsim.isa.language.modes import Engine
from trnsim.memory import Tile

_PERMUTE = "neuron-runtime/about/collectives.rst, Permute Operation"


class AllGather(
    Collective,
    engines=(Engine.collective,),
    source="nki.collectives.all_gather",
    is_in_nki_isa=False,
):
    """``dst = concatenate(src of each rank of the group)`` on every rank of the group."""

    kind = "all_gather"
    srcs: tuple[Tile, ...] = reads_many(HBM, SBUF)
    dsts: tuple[Tile, ...] = writes_many(HBM, SBUF)
    replica_group: tuple[tuple[int, ...], ...]
    collective_dim: int

    def check(self, core: NeuronCore, n: Dims) -> None:
        """`collective_dim` is 0; in SBUF 0 or 1.

        - dst has N times the length of src along `collective_dim`, for a group of N ranks.
        """
        super().check(core, n)
        check_dimension(self, self.collective_dim, (0, 1))
        for group in self.replica_group:
            check_elements(self, len(group), 1, self.collective_dim)

    def details(self) -> str:
        """The dimension along which arrays are joined."""
        return f"collective_dim={self.collective_dim}"

    def received_arrays(self, group: tuple[int, ...], offers: MemberArrays) -> MemberArrays:
        """The concatenation of all members' arrays, the same for every member."""
        if self.collective_dim == 1:
            results = [np.concatenate([arrays[0] for arrays in offers], axis=1)]
        else:
            results = [
                np.concatenate([flat(arrays[tensor]) for arrays in offers])
                for tensor in range(len(self.srcs))
            ]
        return [results] * len(group)


class AllToAll(
    Collective,
    engines=(Engine.collective,),
    source="nki.collectives.all_to_all",
    is_in_nki_isa=False,
):
    """``part s of dst on rank r = part r of src on rank s``; r and s are positions in the group."""

    kind = "all_to_all"
    srcs: tuple[Tile, ...] = reads_many(HBM)
    dsts: tuple[Tile, ...] = writes_many(HBM)
    replica_group: tuple[tuple[int, ...], ...]
    collective_dim: int

    def check(self, core: NeuronCore, n: Dims) -> None:
        """`collective_dim` is 0; src and dst have one size, N equal parts for N ranks."""
        super().check(core, n)
        check_dimension(self, self.collective_dim, (0,))
        check_elements(self, 1, 1)
        for group in self.replica_group:
            for tile in self.srcs:
                if tile.pattern.elements % len(group):
                    self.refuse(
                        f"a source is {tile}, for a group of {len(group)} ranks; legal: as many "
                        "equal parts as ranks",
                        "pad dimension 0 to a multiple of the ranks",
                    )

    def received_arrays(self, group: tuple[int, ...], offers: MemberArrays) -> MemberArrays:
        """For each member, its part of every member's array, concatenated."""
        count = len(group)
        parts = [[np.split(flat(array), count) for array in arrays] for arrays in offers]
        return [
            [
                np.concatenate([parts_of_sender[tensor][receiver] for parts_of_sender in parts])
                for tensor in range(len(self.srcs))
            ]
            for receiver in range(count)
        ]


class CollectivePermute(
    Collective,
    engines=(Engine.collective,),
    source="nki.collectives.collective_permute",
    is_in_nki_isa=False,
):
    """``dst on the target = src on the source``, for each pair of ranks.

    Ranks that no pair names take no part.
    """

    kind = "permute"
    srcs: tuple[Tile, ...] = reads_many(HBM)
    dsts: tuple[Tile, ...] = writes_many(HBM)
    source_target_pairs: tuple[tuple[int, ...], ...]

    def check(self, core: NeuronCore, n: Dims) -> None:
        """One tensor in HBM; src and dst have equal sizes.

        - Each source rank is also the target of exactly one other rank: the pairs form rings.
        - Ranks that follow each other in a ring are on one chip, or on chips with a connection.
        """
        super().check(core, n)
        check_elements(self, 1, 1)
        check_one_tensor(self, self.srcs, "srcs")

    def groups(self) -> Groups:
        """The rings that the pairs form, each from its lowest rank on."""
        target_of = {pair[0]: pair[1] for pair in self.source_target_pairs}
        rings: list[tuple[int, ...]] = []
        sources = set(target_of)
        while sources:
            ring = [min(sources)]
            while (target := target_of[ring[-1]]) != ring[0]:
                ring.append(target)
            rings.append(tuple(ring))
            sources -= set(ring)
        return tuple(rings)

    def received_arrays(self, group: tuple[int, ...], offers: MemberArrays) -> MemberArrays:
        """The arrays of the previous rank in the ring."""
        return [[flat(offers[member - 1][0])] for member in range(len(group))]

    def _check_groups(self) -> None:
        """Refuse pairs that form no rings, or connect chips without a link."""
        pairs = self.source_target_pairs
        if not pairs or any(len(pair) != 2 for pair in pairs):  # noqa: PLR2004  a pair
            self.refuse(
                f"source_target_pairs={list(pairs)}; legal: (source, target) for each rank that "
                "takes part",
                "name pairs of ranks",
            )
        sources, targets = (sorted(pair[side] for pair in pairs) for side in (0, 1))
        unknown_ranks = [
            rank for rank in (*sources, *targets) if not 0 <= rank < self.setting.ranks
        ]
        if unknown_ranks:
            self.refuse(
                f"source_target_pairs name rank {unknown_ranks[0]}; legal: 0 to "
                f"{self.setting.ranks - 1}",
                "name ranks of the run",
            )
        is_ring = len(set(sources)) == len(sources) and sources == targets
        if not is_ring or any(source == target for source, target in pairs):
            self.refuse(
                f"source_target_pairs={list(pairs)} make no ring; legal: each rank that sends "
                "also receives, both once, and from another rank",
                "close the ring: the last rank sends to the first",
                _PERMUTE,
            )
        for source, target in pairs:
            if not self.setting.fabric.is_direct(source, target):
                self.refuse(
                    f"ranks {source} and {target} are on chips without a connection; legal: "
                    "neighbours",
                    "order the ring along the connections, or use all_to_all",
                    _PERMUTE,
                )


def check_one_tensor(instruction: Collective, tiles: tuple[Tile, ...], name: str) -> None:
    """Refuse several tensors in operand `name` of a collective that exchanges only one."""
    if len(tiles) != 1:
        instruction.refuse(
            f"`{name}` has {len(tiles)} tensors; legal: one",
            "issue a collective for each",
        )
