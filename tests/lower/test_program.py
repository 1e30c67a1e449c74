"""Programs: the layouts of weights that they ask for, and their instructions without values."""

import numpy as np
from made_graphs import Made

from trnsim.lower.emit.places.walk import Frame
from trnsim.lower.program import WeightPanel, run_graph


def test_a_part_of_a_weight_lies_in_blocks_and_is_zero_beyond_its_rows():
    array = np.arange(150 * 7, dtype=np.float32).reshape(150, 7)
    part = WeightPanel(0, Frame((150, 7), (0,), (1,)), 2, 4)
    assert part.shape == (128, 2, 4)
    found = part.of(array)
    np.testing.assert_array_equal(found[:, 0], array[:128, 2:6])
    np.testing.assert_array_equal(found[:22, 1], array[128:, 2:6])
    assert not found[22:, 1].any()


def test_a_part_of_a_weight_may_be_turned():
    array = np.arange(6 * 5 * 4, dtype=np.float32).reshape(6, 5, 4)
    part = WeightPanel(0, Frame((6, 5, 4), (2,), (0, 1)), 5, 10)
    assert part.shape == (4, 1, 10)
    np.testing.assert_array_equal(part.of(array)[:, 0], array.reshape(30, 4).T[:, 5:15])


def test_without_values_a_program_has_the_same_instructions():
    made = Made("bfloat16")
    x = made.given(2, 20, 192)
    made.graph.outputs = [made.linear(made.layer_norm(x), 320)]
    runs = [
        run_graph(made.graph, made.arrays, "trn2", frozenset(made.weights), numerics=numerics)
        for numerics in (True, False)
    ]
    names = [[span.opcode for span in run.timeline.spans()] for run in runs]
    assert names[0] == names[1]
    assert runs[0].timeline.device_time_s == runs[1].timeline.device_time_s > 0
