import math
from collections import OrderedDict
from itertools import count

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.errors import BadInput
from trnsim.torch.traces.structure import forward_text, nesting_of, parameter_names

ONE = torch.ones(1)


def nesting(value):
    tensors = []
    return nesting_of(value, count(), tensors), tensors


@pytest.mark.parametrize(
    ("value", "type_", "expression"),
    [
        (ONE, "Tensor", "r[0]"),
        ((ONE,), "Tuple[Tensor]", "(r[0],)"),
        ([ONE, ONE], "List[Tensor]", "[r[0], r[1]]"),
        ([], "List[Tensor]", "torch.jit.annotate(List[Tensor], [])"),
        ([ONE, (ONE, ONE)], "Tuple[Tensor, Tuple[Tensor, Tensor]]", "(r[0], (r[1], r[2]))"),
        ([(ONE, ONE)], "List[Tuple[Tensor, Tensor]]", "[(r[0], r[1])]"),
        ({"a'b": ONE}, "Dict[str, Tensor]", '{"a\'b": r[0]}'),
        ({2: ONE}, "Dict[int, Tensor]", "{2: r[0]}"),
        (OrderedDict(a=ONE, b=None), "Dict[str, Tensor]", '{"a": r[0]}'),
        (
            {"a": ONE, "b": (ONE, ONE)},
            "Tuple[Tensor, Tuple[Tensor, Tensor]]",
            "(r[0], (r[1], r[2]))",
        ),
        ((ONE, None, 3), "Tuple[Tensor, Tensor, Tensor]", "(r[0], None, 3)"),
    ],
)
def test_a_nested_value_is_text_of_torchscript(value, type_, expression):
    found, _ = nesting(value)
    assert found.expression() == expression
    assert None in (value if isinstance(value, tuple) else ()) or found.type == type_


@pytest.mark.parametrize("constant", [math.inf, -math.inf, math.nan, 1e300, 'größe 😀\n"\\\0', ""])
def test_a_constant_is_what_torchscript_returns(constant):
    text = f"def constant():\n    return {nesting(constant)[0].expression()}\n"
    returned = torch.jit.CompilationUnit(text).constant()
    assert repr(returned) == repr(constant)


def test_tensors_are_read_in_order():
    found, tensors = nesting({"k": [ONE, 2 * ONE], "v": [3 * ONE]})
    assert found.reads("past") == ['past["k"][0]', 'past["k"][1]', 'past["v"][0]']
    assert [tensor.item() for tensor in tensors] == [1, 2, 3]


def test_results_that_are_states_are_left_out():
    assert nesting((ONE, ONE))[0].renumbered({0: 0}).expression() == "r[0]"
    assert nesting((ONE, ONE, ONE))[0].renumbered({0: 0, 2: 1}).expression() == "(r[0], r[1])"
    assert nesting({"a": ONE, "b": ONE})[0].renumbered({1: 0}).expression() == '{"b": r[0]}'


def test_an_object_is_refused_by_its_type():
    with pytest.raises(BadInput, match="takes an object"):
        nesting([object()])


def test_a_forward_of_no_result_and_a_list():
    text = forward_text(["x"], [nesting([ONE])[0]], nesting(())[0], ["r = a"])
    assert text.splitlines() == [
        "def forward(self, x: List[Tensor]):",
        "    a = torch.jit.annotate(List[Tensor], [x[0]])",
        "    r = a",
        "    return ()",
    ]


def test_parameters_are_identifiers_and_differ():
    assert parameter_names(["x", "lambda", "a", "x", "1"]) == [
        *("x", "input_1", "input_2", "input_3", "input_4"),
    ]
