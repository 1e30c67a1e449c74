"""Operations that become others, beside their references."""

import numpy as np
import pytest

from trnsim.graph import Graph, verify
from trnsim.lower import evaluate
from trnsim.lower.legalize import legalize


@pytest.fixture
def values():
    """`values(operation, *arrays)`: what its kernels give by other operations, and its reference.

    Of what the reference does not take, the first alone.
    """

    def run(operation, *arrays, chip="trn2", dtype="", has_reference=True):
        arrays = [np.asarray(array) for array in arrays]
        graph = Graph()
        given = [graph.input(array.shape, array.dtype.name) for array in arrays]
        graph.outputs = list(graph.apply_to_all(operation, given, dtype))
        rebuilt = legalize(graph)
        assert rebuilt is not graph
        verify(rebuilt)
        assert operation not in [node.operation for node in rebuilt.nodes]
        with np.errstate(all="ignore"):
            found = evaluate(graph, arrays, chip)
            return (found, graph.reference(arrays)) if has_reference else found

    return run


@pytest.fixture
def agree(values):
    """`agree(operation, *arrays)`: its kernels give the reference, exactly unless `near`."""

    def check(operation, *arrays, near=0.0, **named):
        found, expected = values(operation, *arrays, **named)
        for ours, theirs in zip(found, expected, strict=True):
            assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
            wide = [one.astype(np.float64) for one in (ours, theirs)]
            np.testing.assert_allclose(*wide, rtol=near, atol=near)
            if not near:
                signs = [np.signbit(one[~np.isnan(one)]) for one in wide]
                np.testing.assert_array_equal(*signs)

    return check
