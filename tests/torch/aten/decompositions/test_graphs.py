"""Graphs of decompositions are well formed."""

import pytest

pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.errors import EmulatorError
from trnsim.graph import TensorType, Value, verify
from trnsim.graph.building.build import Build
from trnsim.torch.aten.decompositions import DECOMPOSITIONS


def built(name, shapes, dtype):
    """The graph of an operator of tensors alone; None where it takes other arguments."""
    b = Build()
    b.result_types = [TensorType((4, 6), dtype)] * 3
    given = [b.input(TensorType(shape, dtype)) for shape in shapes]
    try:
        found = DECOMPOSITIONS[name](b, *given)
    except (EmulatorError, TypeError, ValueError, IndexError, AttributeError):
        return None
    several = found if isinstance(found, tuple | list) else [found]
    b.graph.outputs = [value for value in several if isinstance(value, Value)]
    return b.graph


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "uint8"])
def test_graphs_of_decompositions_are_well_formed(dtype):
    """Those of every operator that takes tensors alone; the others are verified as they run."""
    made = 0
    for name in DECOMPOSITIONS:
        for shapes in ([(4, 6)], [(4, 6)] * 2, [(4, 6), (1, 6)], [(4, 6)] * 3):
            graph = built(name, shapes, dtype)
            if graph is not None:
                verify(graph)
                made += 1
    assert made > 200
