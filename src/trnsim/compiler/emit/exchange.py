"""Exchanges between ranks: a rank's program writes its operand and reads the result.

In a program with links (`trnsim.compiler.links`) the exchange takes their time. Without links it
takes none: a caller adds the times of the exchanges that `trnsim.lower.without_exchanges` lists.
"""

from __future__ import annotations

from dataclasses import replace

from trnsim.graph import Node
from trnsim.graph.ops.collectives import (
    AllGather,
    AllReduce,
    AllToAll,
    CollectivePermute,
    ReduceScatter,
)
from trnsim.lower.emit.emission import Emission
from trnsim.lower.emit.places.tensor_place import in_hbm
from trnsim.lower.kernels import tiles
from trnsim.lower.kernels.tiles import new
from trnsim.lower.rules import emitter
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl


@emitter(AllReduce)
def all_reduce(emission: Emission, node: Node) -> None:
    """The reduction over ranks of each element; the operand may lie on the chip, in any layout."""
    place = emission.materialize(node.values[0])[0]
    if not place.is_on_chip or place.storage.is_replicated:
        if emission.links is not None:
            exchange(emission, node)
            return
        emission.places[node.result.number] = [
            in_hbm(emission.dense(node.values[0]), node.result.shape) if place.is_on_chip else place
        ]
        return
    operand = place.storage.tile
    rows, blocks, columns = operand.shape
    shape = (rows, blocks * columns)
    send_buffer = nl.ndarray(shape, dtype=operand.dtype, buffer=nl.shared_hbm)
    result_tile = new(operand.shape, operand.dtype)
    nisa.dma_copy(dst=send_buffer, src=operand.reshape(shape))
    receive_buffer = send_buffer
    if emission.links is not None:
        receive_buffer = nl.ndarray(shape, dtype=operand.dtype, buffer=nl.shared_hbm)
        emission.links.issue(receive_buffer, send_buffer, node)
    nisa.dma_copy(dst=result_tile.reshape(shape), src=receive_buffer)
    matrix = replace(place.storage, tile=result_tile)
    emission.places[node.result.number] = [replace(place, storage=matrix)]


@emitter(AllGather, ReduceScatter, AllToAll, CollectivePermute)
def exchange(emission: Emission, node: Node) -> None:
    """An exchange whose operand and result lie in row-major order in HBM."""
    operand = emission.dense(node.values[0])
    result = tiles.output(node.result.shape, node.result.dtype)
    if emission.links is not None:
        emission.links.issue(result, operand, node)
    emission.places[node.result.number] = [in_hbm(result, node.result.shape)]
