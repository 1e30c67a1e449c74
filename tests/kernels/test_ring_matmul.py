"""The example of a matmul in a ring: values, and exchanges that run beside products."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from trnsim.isa import Engine
from trnsim.profile.measures.collectives import times_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "ring_matmul.py"


@pytest.mark.parametrize("ranks", [4, 8, 16])
def test_each_rank_has_its_columns_of_the_product(ranks):
    world, wanted = runpy.run_path(str(EXAMPLE))["run"](ranks=ranks)
    for out, columns in zip(world.outputs, wanted, strict=True):
        np.testing.assert_allclose(out.reshape(columns.shape), columns, rtol=1e-4, atol=1e-4)


def test_products_run_while_rows_are_passed_on():
    world, _ = runpy.run_path(str(EXAMPLE))["run"](ranks=8)
    spans = list(world.runs[0].timeline.spans())
    exchanges = [span for span in spans if span.engine is Engine.collective]
    products = [span for span in spans if span.opcode == "nc_matmul"]
    assert len(exchanges) == 7
    assert len(products) == 8
    for product, exchange in zip(products, exchanges[1:], strict=False):
        assert product.start_s < exchange.busy_until_s
    times = times_of(world.runs[0].timelines)
    assert times.exposed_s < times.total_s
