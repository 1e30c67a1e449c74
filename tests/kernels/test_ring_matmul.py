"""The example of a matmul in a ring: values, exchanges that run beside products, a race."""

import numpy as np
import pytest

from trnsim.errors import DataRace
from trnsim.isa import Engine


@pytest.fixture
def run(example):
    return example("ring_matmul").run


@pytest.mark.parametrize("lnc", [1, 2])
@pytest.mark.parametrize("ranks", [4, 8, 16])
def test_each_rank_has_its_columns_of_the_product(run, ranks, lnc):
    world, wanted = run(ranks=ranks, lnc=lnc)
    for out, columns in zip(world.outputs, wanted, strict=True):
        np.testing.assert_allclose(out.reshape(columns.shape), columns, rtol=1e-4, atol=1e-4)
    assert not world.warnings


@pytest.mark.parametrize("lnc", [1, 2])
@pytest.mark.parametrize("ranks", [4, 8])
def test_products_run_while_rows_are_passed_on(run, ranks, lnc, hidden_s):
    world, _ = run(ranks=ranks, lnc=lnc)
    spans = list(world.runs[0].timeline.spans())
    exchanges = [span for span in spans if span.engine is Engine.collective]
    products = [span for span in spans if span.opcode == "nc_matmul"]
    assert len(exchanges) == ranks - 1
    assert len(products) == ranks
    for product, exchange in zip(products, exchanges[1:], strict=False):
        assert product.start_s < exchange.busy_until_s
    assert sum(hidden_s(world.runs[0], "collective_permute_implicit")) > 0


def test_without_the_barrier_there_is_a_race(run, without_barrier):
    assert without_barrier("rows0") == []
    with pytest.raises(DataRace, match=r"reads rows0 HBM .*ring_matmul\.py:\d+ while the other"):
        run(ranks=4, lnc=2)
