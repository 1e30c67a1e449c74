"""A program's figures: its operations share its time, and its use follows from its bound."""

import pytest
from test_compilation import mlp

from trnsim.compiler import compile as compile_graph


def test_its_operations_share_its_time_and_its_products():
    graph, weights = mlp()
    found = compile_graph(graph, weights=weights)
    parts = found.costs()
    assert sum(one.device_time_s for one in parts) == pytest.approx(found.device_time_s)
    assert sum(one.instructions for one in parts) == found.instructions
    assert sum(one.flop for one in parts) == pytest.approx(2 * 2 * 128 * 256 * 1024)
    assert any("dot_general" in one.name and "gelu" in one.name for one in parts)
