"""Operations that one instruction computes, on operands of all kinds."""

import pytest
from made_graphs import CHIPS, Made

from trnsim.lower.emit.computing.fusing import are_floats


def compute_instructions(made, *outputs, chip="trn1"):
    return [
        name for name in made.opcodes(*outputs, chip=chip) if name not in ("dma_copy", "memset")
    ]


def test_conversions_between_formats_of_floating_point():
    made = Made()
    x = made.given(4)
    made.of("convert", x, dtype="bfloat16")
    made.of("convert", x, dtype="int32")
    assert [are_floats(node) for node in made.graph.nodes] == [True, False]


@pytest.mark.parametrize("column", [False, True])
def test_an_activation_of_data_times_a_scale_and_a_shift_is_one_instruction(column):
    made = Made("float32")
    x = made.given(128, 300)
    scale, shift = (made.repeated(made.given(128), x, [0]) if column else 1.5 for _ in range(2))
    found = made.of("tanh", made.of("add", made.of("multiply", x, scale), shift))
    made.check(found, chip="trn2")
    names = compute_instructions(made, found)
    assert names.count("activation") == 1
    assert len(names) <= 2


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "maximum", "minimum"])
@pytest.mark.parametrize("is_first", [True, False])
def test_either_side_is_a_number_a_column_or_a_tensor(name, is_first):
    made = Made("float32")
    x, y = made.given(130, 65), made.given(130, 65)
    column = made.repeated(made.given(130), x, [0])
    found = []
    for other in (0.5, column, y):
        inner = made.of("multiply", x, -2.0)
        found.append(made.of(name, *((inner, other) if is_first else (other, inner))))
    made.check(*found, chip=CHIPS[is_first])
