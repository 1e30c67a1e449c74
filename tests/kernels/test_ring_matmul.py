"""The example of a matmul in a ring: values, exchanges that run beside products, a race."""

from functools import cache

import numpy as np
import pytest

from trnsim.errors import DataRace
from trnsim.isa import Engine


@pytest.fixture(scope="module")
def run(example):
    return example("ring_matmul").run


@pytest.fixture(scope="module")
def world(run):
    """A function that runs the example, once for each of its arguments: the world, and numpy's."""
    return cache(run)


@pytest.mark.slow_cases("8-2")
@pytest.mark.slow_cases("16-2")
@pytest.mark.parametrize(("ranks", "lnc"), [(4, 1), (4, 2), (8, 1), (8, 2), (16, 2)])
def test_each_rank_has_its_columns_of_the_product(world, ranks, lnc):
    made, wanted = world(ranks=ranks, lnc=lnc)
    for out, columns in zip(made.outputs, wanted, strict=True):
        np.testing.assert_allclose(out.reshape(columns.shape), columns, rtol=1e-4, atol=1e-4)
    assert not made.warnings


@pytest.mark.parametrize("lnc", [1, 2])
@pytest.mark.parametrize("ranks", [4, 8])
def test_products_run_while_rows_are_passed_on(world, ranks, lnc, hidden_s):
    made, _ = world(ranks=ranks, lnc=lnc)
    spans = list(made.runs[0].timeline.spans())
    exchanges = [span for span in spans if span.engine is Engine.collective]
    products = [span for span in spans if span.opcode == "nc_matmul"]
    assert len(exchanges) == ranks - 1
    assert len(products) == ranks
    for product, exchange in zip(products, exchanges[1:], strict=False):
        assert product.start_s < exchange.busy_until_s
    assert sum(hidden_s(made.runs[0], "collective_permute_implicit")) > 0


def test_without_the_barrier_there_is_a_race(run, without_barrier):
    assert without_barrier("rows0") == []
    with pytest.raises(DataRace, match=r"reads rows0 HBM .*ring_matmul\.py:\d+ while the other"):
        run(ranks=4, lnc=2)
