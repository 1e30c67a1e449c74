"""Long lines, as rows or by a kernel, and what is kept beside a result."""

import numpy as np
import pytest
from made_graphs import CHIPS, Made

from trnsim.lower.emit.computing.lines import rows


@pytest.mark.parametrize(
    ("length", "found"),
    [
        (1 << 15, (128, 256)),
        (1 << 24, (1 << 14, 1024)),
        (30522 * 1024, (30522, 1024)),
        (9 * 11 * 331, None),  # no divisor from 128 to 256
        (32771, None),  # a prime number
    ],
)
def test_a_line_is_cut_into_rows_that_divide_it(length, found):
    assert rows((length,)) == found


def adam(made, length, dtype, *, scalar_steps):
    """A step of AdamW: the parameter and both moments."""
    p, d = made.given(length, dtype=dtype), made.given(length, dtype=dtype)
    m = made.given(length, dtype="float32")
    v = made.given(length, dtype="float32", array=made.random.random(length) + 0.01)
    of = made.of
    wide = [of("convert", one, dtype="float32") if dtype != "float32" else one for one in (p, d)]
    m1 = of("add", of("multiply", m, 0.9), of("multiply", wide[1], 0.1))
    squared = of("multiply", wide[1], wide[1])
    v1 = of("add", of("multiply", v, 0.999), of("multiply", squared, 0.001))
    step = of("divide", m1, of("add", of("sqrt", v1), 1e-3))
    if scalar_steps:
        rate = made.given(1, dtype="float32", array=np.array([0.01]))
        step = of("multiply", step, made.repeated(rate, step, [0]))
    else:
        step = of("multiply", step, 0.01)
    p1 = of("subtract", of("multiply", wide[0], 0.99), step)
    return (of("convert", p1, dtype=dtype) if dtype != "float32" else p1), m1, v1


LENGTHS = [1, 1000, (1 << 15) - 1, 1 << 15, 32771, 40000, 3 << 15]
WAYS = [("float32", False), ("bfloat16", True), ("float32", True), ("bfloat16", False)]


@pytest.mark.slow_cases("32767-float32-True", "32767-bfloat16-False")
@pytest.mark.parametrize(
    ("length", "dtype", "scalar_steps"),
    [
        (length, *way)
        for at, length in enumerate(LENGTHS)
        for way in (WAYS[at % 4], WAYS[(at + 1) % 4])
    ],
)
def test_an_optimizers_step(length, dtype, scalar_steps):
    made = Made(dtype)
    found = adam(made, length, dtype, scalar_steps=scalar_steps)
    made.check(*found, chip=CHIPS[length % 4])


@pytest.mark.parametrize("chip", ["trn1", "trn2"])
def test_each_operand_of_a_step_is_read_once_and_each_result_written_once(chip):
    made = Made("float32")
    length = 1 << 18
    run = made.run(*adam(made, length, "float32", scalar_steps=False), chip=chip)
    moved = [span for span in run.timeline.spans() if span.opcode == "dma_copy"]
    assert len(moved) == 7 * length // (128 * 1024)


def test_a_value_that_two_operations_of_the_same_result_read_is_computed_once():
    made = Made("float32")
    x, y = made.given(256, 64), made.given(256, 64)
    shared = made.of("exponential", made.of("multiply", x, y))
    z = made.of("add", made.of("tanh", shared), made.of("multiply", shared, y))
    names = made.opcodes(z, shared)
    assert names.count("activation") == 2
    made.check(z, shared)
    made.check(shared, z)


@pytest.mark.parametrize("length", [1 << 15, (1 << 15) + 1])
def test_a_long_line_is_cut_into_rows(length):
    made = Made()
    x, y = made.given(length), made.given(length)
    total = made.of("add", made.of("multiply", x, 3.0), y)
    partitions = max(
        int(span.operands.partition("[")[2].partition(",")[0])
        for span in made.run(total).timeline.spans()
        if "SBUF" in span.operands.partition(",")[0]
    )
    assert partitions == 128
    made.check(total)


@pytest.mark.parametrize("operations", [1, 24, 25, 60])
def test_a_line_of_many_operations_gives_the_same(operations):
    made = Made()
    x = made.given(1 << 15)
    y = x
    for _ in range(operations):
        y = made.of("multiply", made.of("add", y, 1.0), 0.5)
    made.check(y)


def test_a_short_line_and_one_of_a_product_are_lines_on_the_chip():
    made = Made()
    short = made.of("add", made.given((1 << 15) - 1), 1.0)
    rows = made.graph.dot_general(made.given(256, 4), made.given(4, 128), (1, 0))
    long = made.of("add", made.graph.reshape(rows, (1 << 15,)), 2.0)
    made.check(short, long)
