"""Sentences of docs/limits.md, each with a program that shows it: a limit that goes must leave."""

from pathlib import Path

import nki
import nki.collectives
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import trnsim
from trnsim.errors import BadInput, IllegalInstruction, NotModelled
from trnsim.graph import Graph
from trnsim.graph.ops.collectives import AllReduce
from trnsim.lower import costs, evaluate

PAGE = (Path(__file__).parents[1] / "docs" / "limits.md").read_text(encoding="utf-8")
ONES = np.ones((4, 5), np.float32)


@nki.jit
def summed(x, groups):
    """The sum of `x` over the ranks of a group."""
    source = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
    whole = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
    result = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=source, src=x)
    nki.collectives.all_reduce([source], [whole], groups, nl.add)
    nisa.dma_copy(dst=result, src=whole)
    return result


@nki.jit
def half_written(x):
    """A copy of a tile at an address of which half is written."""
    tile = nl.ndarray((4, 10), dtype=x.dtype, buffer=nl.sbuf, address=(0, 1024))
    other = nl.ndarray((4, 10), dtype=x.dtype, buffer=nl.sbuf)
    result = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=tile[:, 0:5], src=x)
    nisa.tensor_copy(dst=other, src=tile)
    nisa.dma_copy(dst=result, src=other[:, 0:5])
    return result


def group(*ranks):
    return nki.collectives.ReplicaGroup([list(ranks)])


def show_collectives_without_ranks():
    with pytest.raises(IllegalInstruction, match="legal: in a world of ranks, be it of one"):
        trnsim.run(summed, ONES, group(0))
    alone = trnsim.run(summed, ONES, group(0), ranks=1)
    np.testing.assert_array_equal(alone.runs[0].outputs, ONES)


def show_several_devices():
    world = trnsim.run(summed, ONES, group(0, 1), ranks=2)
    np.testing.assert_array_equal(world.runs[1].outputs, 2 * ONES)


def show_records_of_partly_written_tensors():
    with pytest.raises(BadInput, match="never written, at an address that the kernel fixed"):
        trnsim.record(half_written, ONES)


def show_the_older_generation():
    import neuronxcc.nki  # noqa: PLC0415

    assert neuronxcc.nki.typing
    for name in ("language", "isa", "jit", "benchmark"):
        assert not hasattr(neuronxcc.nki, name)


def show_lowering_refuses_collectives():
    graph = Graph()
    graph.outputs = [graph.apply(AllReduce(((0, 1),)), graph.input((4, 5), "float32"))]
    for ask in (lambda: costs(graph, "trn2"), lambda: evaluate(graph, [ONES])):
        with pytest.raises(NotModelled, match="a graph is lowered for one"):
            ask()


SHOWN = {
    "A collective needs a world of ranks, be it of one": show_collectives_without_ranks,
    "Kernels on several devices run as ranks.": show_several_devices,
    "It refuses a kernel that leaves elements unwritten": show_records_of_partly_written_tensors,
    "Of the older generation, `neuronxcc.nki`, only `typing` is there.": show_the_older_generation,
    "`trnsim.lower` and its `evaluate` refuse collectives": show_lowering_refuses_collectives,
}


@pytest.mark.parametrize("sentence", SHOWN)
def test_a_limit_stands_on_the_page_and_is_one(sentence):
    assert sentence in PAGE
    SHOWN[sentence]()
