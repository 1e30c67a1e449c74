"""Exchanges between ranks, as a rank's program has them."""

import numpy as np
import pytest

from trnsim.compiler.program import evaluate_program
from trnsim.errors import NotModelled
from trnsim.graph import Graph
from trnsim.graph.ops.collectives import AllGather, AllReduce
from trnsim.lower.program import run_graph

PAIR = ((0, 1),)


def transfers(graph, weights=frozenset()):
    arrays = [np.empty(value.shape, value.type.numpy_dtype()) for value in graph.inputs]
    timeline = run_graph(graph, arrays, "trn2", weights, numerics=False).timeline
    return [span.operands for span in timeline.spans() if span.opcode == "dma_copy"]


def test_a_sum_of_all_goes_to_hbm_and_back_in_its_own_layout():
    g = Graph()
    x, w = g.input((8, 256), "bfloat16"), g.input((512, 256), "bfloat16")
    made = g.apply(AllReduce(PAIR, "add"), g.dot_general(x, w, (1, 1)))
    g.outputs = [g.elementwise("tanh", made)]
    found = transfers(g, frozenset({w.number}))
    assert sum(text.startswith("dst=HBM [128, 32]") for text in found) == 1
    assert sum("src=HBM [128, 32]" in text for text in found) == 1


def test_parts_that_are_put_together_come_back_in_order():
    g = Graph()
    x = g.input((8, 256), "bfloat16")
    g.outputs = [g.apply(AllGather(PAIR, 0), g.elementwise("tanh", x))]
    assert any(text.startswith("dst=HBM") for text in transfers(g))


def test_one_rank_alone_has_no_values():
    g = Graph()
    g.outputs = [g.apply(AllReduce(PAIR, "add"), g.input((2, 3), "float32"))]
    with pytest.raises(NotModelled, match="exchanges values between cores"):
        evaluate_program(g, [np.ones((2, 3), np.float32)])
