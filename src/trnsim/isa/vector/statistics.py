"""Mean and variance of each partition: bn_stats, bn_aggr."""

from __future__ import annotations

import numpy as np

from trnsim.arch import NeuronCore
from trnsim.errors import Unspecified
from trnsim.isa.language.declaration import reads, writes
from trnsim.isa.language.instruction import PSUM, SBUF, Cost, Dims, Instruction
from trnsim.isa.language.lanes import lane_cost
from trnsim.isa.language.machine import Machine
from trnsim.isa.language.modes import Engine
from trnsim.memory import Tile

_TRIPLE = 3  # count, mean, variance * count
_PAIR = 2  # mean, variance


class BnStats(Instruction, engines=(Engine.vector,)):
    """``dst = [count, mean, variance * count] of data[:, 0::2], then of data[:, 1::2]``: [P, 6].

    Computed in float32.

    Note:
        With F = 1 there are no odd elements: all three of their values are 0, with which alone
        bn_aggr's result is right. AWS does not say.
    """

    result_depends_on = "same element"

    dst: Tile = writes("P S", SBUF, PSUM)
    data: Tile = reads("P F", SBUF, PSUM)

    def check(self, core: NeuronCore, n: Dims) -> None:
        """At most 512 elements per partition.

        - dst has 6 elements per partition.
        """
        limit = core.bn_stats_free_max
        if limit < n.F:
            self.refuse(
                f"data is {self.data}, {n.F} elements a partition; legal on {core.name}: up to "
                f"{limit}",
                "use several nisa.bn_stats and one nisa.bn_aggr",
            )
        if n.S != 2 * _TRIPLE:
            self.refuse(
                f"dst is {self.dst}; legal: {2 * _TRIPLE} elements a partition",
                f"allocate dst as ({n.P}, {2 * _TRIPLE})",
            )

    def execute(self, machine: Machine) -> None:
        """Float32; the variance is the mean squared deviation from the mean."""
        del machine
        data = self.data.load().reshape(self.data.partitions, -1)
        stats = np.zeros((len(data), 2 * _TRIPLE), np.float32)
        for parity in range(min(2, data.shape[1])):
            elements = data[:, parity::2]
            mean = elements.mean(axis=1, keepdims=True, dtype=np.float32)
            column = parity * _TRIPLE
            stats[:, column] = elements.shape[1]
            stats[:, column + 1] = mean[:, 0]
            stats[:, column + 2] = np.square(elements - mean).sum(axis=1)
        self.dst.store(stats)

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """max(MIN_II, F)."""
        return lane_cost(core, Engine.vector, n.F)


class BnAggr(Instruction, engines=(Engine.vector,)):
    """``dst = [mean, variance]`` of all elements that bn_stats summarized in ``data``: [P, 2].

    `data` has any number of triples (count, mean, variance * count); the variance is the
    population's.
    """

    result_depends_on = "same element"

    dst: Tile = writes("P S", SBUF, PSUM)
    data: Tile = reads("P F", SBUF, PSUM)

    def check(self, core: NeuronCore, n: Dims) -> None:
        """`data` has a multiple of 3 elements per partition.

        - dst has 2 elements per partition.
        """
        del core
        if n.F % _TRIPLE:
            self.refuse(
                f"data is {self.data}, {n.F} elements a partition; legal: a multiple of {_TRIPLE}",
                "pass what nisa.bn_stats has written as a whole",
            )
        if n.S != _PAIR:
            self.refuse(
                f"dst is {self.dst}; legal: {_PAIR} elements a partition",
                f"allocate dst as ({n.P}, {_PAIR})",
            )

    def execute(self, machine: Machine) -> None:
        """Float32: the variance within the triples' elements plus that between their means."""
        del machine
        triples = self.data.load().reshape(self.data.partitions, -1, _TRIPLE)
        count, mean, squares = triples[..., 0], triples[..., 1], triples[..., 2]
        total = count.sum(axis=1, keepdims=True)
        if not total.all():
            raise Unspecified(
                "bn_aggr: the counts of a partition add up to 0; AWS does not document the "
                "mean of no elements",
                fix="pass what nisa.bn_stats has written",
                source=self.source,
            )
        total_mean = (count * mean).sum(axis=1, keepdims=True) / total
        squares = squares + count * np.square(mean - total_mean)
        variance = squares.sum(axis=1, keepdims=True) / total
        self.dst.store(np.concatenate((total_mean, variance), axis=1))

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """max(MIN_II, 13 * F/3)."""
        cycles = core.vector_aggregate_cycles_per_statistics * n.F / _TRIPLE
        return lane_cost(core, Engine.vector, cycles)
