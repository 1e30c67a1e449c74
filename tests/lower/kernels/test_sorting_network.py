import numpy as np
import pytest
from made_graphs import Made

from trnsim.lower import costs


def rows_of(made, rows, length, *, have_ties):
    array = made.random.standard_normal((rows, length)).astype(np.float32)
    return made.given(rows, length, array=np.round(array * 3) / 3 if have_ties else array)


@pytest.mark.parametrize("have_ties", [False, True])
@pytest.mark.parametrize("chip", ["trn1", "trn2"])
@pytest.mark.parametrize(("rows", "length", "k"), [(1, 16384, 16384), (3, 17001, 17001)])
def test_all_elements_are_in_order_and_equal_ones_as_they_were(rows, length, k, chip, have_ties):
    made = Made()
    made.check(made.graph.top_k(rows_of(made, rows, length, have_ties=have_ties), k), chip=chip)


@pytest.mark.parametrize(("length", "k"), [(30_000, 3000), (70_001, 20_000)])
def test_a_part_of_the_order_is_stored(length, k):
    made = Made()
    made.check(made.graph.top_k(rows_of(made, 2, length, have_ties=True), k))


def test_infinities_are_the_first_and_the_last():
    made = Made()
    array = np.arange(20_000, dtype=np.float32)[None]
    array[0, [7, 9000]] = -np.inf, np.inf
    made.check(made.graph.top_k(made.given(1, 20_000, array=array), 20_000))


def test_an_order_of_a_vocabulary_takes_less_than_a_millisecond():
    made = Made()
    made.graph.outputs = [made.graph.top_k(made.given(1, 32_000), 32_000)]
    (cost,) = costs(made.graph, "trn2")
    assert cost.device_time_s < 1e-3
