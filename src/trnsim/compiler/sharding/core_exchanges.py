"""Exchanges between the two cores of a logical core inside a program.

They compute what exchanges between ranks compute, through the HBM that the two cores share or from
SBUF to SBUF. `trnsim.lower.without_exchanges` leaves them in the graph.

Source: logical-neuroncore-config.rst: workers on the two cores access tensors and perform local
collective operations without accessing the network.
"""

from __future__ import annotations

from typing import ClassVar, Final

from trnsim.graph.operation import Kind
from trnsim.graph.ops.collectives import AllGather, AllReduce

BOTH: Final = ((0, 1),)
"""The group of the two cores."""


class CoreReduce(AllReduce, kind=Kind.KERNEL, abstract=True):
    """The sum of both cores' operands, on both cores."""

    name: ClassVar = "all_reduce between cores"


class CoreGather(AllGather, kind=Kind.KERNEL, abstract=True):
    """The halves of both cores, concatenated along `dim`, on both cores."""

    name: ClassVar = "all_gather between cores"
