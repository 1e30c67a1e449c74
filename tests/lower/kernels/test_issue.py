"""Groups whose operations have no kernel."""

import numpy as np
import pytest

from trnsim.errors import NotModelled
from trnsim.graph import Graph
from trnsim.graph.ops.reductions import Sort
from trnsim.lower import groups, launch


def test_a_group_that_was_not_made_legal_names_what_has_kernels():
    g = Graph()
    g.outputs = list(g.apply_to_all(Sort(0), [g.input((4,), "float32")]))
    with pytest.raises(NotModelled, match="sort has no kernel yet; there are kernels for chains"):
        launch(groups(g)[0], [np.zeros(4, np.float32)], "trn2")
