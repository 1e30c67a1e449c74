"""Engines by their load."""

import pytest
from made_graphs import Made

from trnsim.isa import Engine
from trnsim.lower.kernels import balance


def busy(made, *outputs, chip):
    run = made.run(*outputs, chip=chip)
    return {engine.name: seconds for engine, seconds in run.timeline.busy_s().items()}


def test_the_way_that_leaves_least_to_the_busiest_engine():
    alternatives = (((Engine.vector, 2.0),), ((Engine.scalar, 1.0), (Engine.gpsimd, 1.5)))
    assert balance.lightest_alternative(*alternatives) == 0
    with balance.balanced():
        assert balance.lightest_alternative(*alternatives) == 1
        balance.record_alternative(((Engine.gpsimd, 1.0),))
        assert balance.lightest_alternative(*alternatives) == 0
    assert balance.lightest_alternative(*alternatives) == 0


@pytest.mark.parametrize(("chip", "helps"), [("trn1", False), ("trn2", True), ("trn3", True)])
def test_gpsimd_helps_where_it_has_a_port_of_its_own(chip, helps):
    made = Made("float32")
    x, y, z = (made.given(2048, 1024) for _ in range(3))
    found = made.of("multiply", made.of("add", x, y), made.of("subtract", y, z))
    engines = busy(made, found, chip=chip)
    assert (engines.get("gpsimd", 0.0) > 0.2 * engines["vector"]) is helps


@pytest.mark.parametrize("chip", ["trn2", "trn3"])
def test_no_engine_has_more_than_its_share_of_a_chain(chip):
    made = Made("float32")
    x, y = made.given(1024, 1024), made.given(1024, 1024)
    for number in range(4):
        x = made.of("add", made.of("multiply", x, 1.0 + number), y)
    engines = busy(made, x, chip=chip)
    assert engines["scalar"] > 0.3 * engines["vector"]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_values_are_the_same_on_any_engine(dtype):
    made = Made(dtype)
    x, y = made.given(300, 700), made.given(300, 700)
    column = made.repeated(made.given(300, dtype="float32"), x, [0])
    wide = made.of("multiply", made.of("convert", x, dtype="float32"), column)
    found = made.of("add", wide, made.of("convert", y, dtype="float32"))
    found = made.of("subtract", made.of("multiply", found, 0.5), 3.0)
    found = made.of("subtract", 1.0, made.of("add", found, wide))
    made.check(made.of("convert", found, dtype=dtype), wide)
