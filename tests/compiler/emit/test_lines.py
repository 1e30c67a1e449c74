"""Long lines go by a kernel that cuts them into rows."""

import pytest
from made_graphs import Made


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
