"""Forms of operations: what suits them, and what they capture."""

import pytest

from trnsim.graph import Graph
from trnsim.graph.ops.arithmetic import Add, Divide, Multiply, Negate
from trnsim.graph.ops.functions import Exponential
from trnsim.graph.ops.rounding import Convert
from trnsim.graph.patterns import Chain, Either, Number, Producers, TensorForm, form_of, number_of

SHAPE = (3, 4)


class Bench:
    """A graph, and forms of its values."""

    def __init__(self):
        self.graph = Graph()
        self.x, self.y = (self.graph.input(SHAPE, "float32") for _ in "xy")
        self.outputs = []

    def of(self, name, *operands, **options):
        return self.graph.elementwise(name, *operands, **options)

    def match(self, form, value, *others):
        """What a form captures of a value, beside which others are returned."""
        self.graph.outputs = [value, *others]
        return form.match(value, Producers.of_graph(self.graph), {})


@pytest.fixture
def bench():
    return Bench()


def test_operations_are_told_by_their_class_and_operands_by_their_forms(bench):
    form = form_of(Negate, form_of(Exponential, TensorForm("x")), name="whole")
    value = bench.of("negate", bench.of("exponential", bench.x))
    assert bench.match(form, value) == {"whole": value, "x": bench.x}
    assert bench.match(form, bench.of("negate", bench.of("tanh", bench.x))) is None
    assert bench.match(form, bench.x) is None
    assert form_of(Negate).match(2.0, Producers({}), {}) is None


def test_one_of_several_operations_and_any_operands(bench):
    form = form_of((Add, Multiply), name="either")
    for name in ("add", "multiply"):
        assert bench.match(form, bench.of(name, bench.x, bench.y)) is not None
    assert bench.match(form, bench.of("subtract", bench.x, bench.y)) is None


def test_a_name_is_the_same_tensor_wherever_it_stands(bench):
    form = form_of(Add, TensorForm("x"), form_of(Negate, TensorForm("x")))
    assert bench.match(form, bench.of("add", bench.x, bench.of("negate", bench.x)))
    assert bench.match(form, bench.of("add", bench.x, bench.of("negate", bench.y))) is None
    unnamed = form_of(Add, TensorForm(), TensorForm())
    assert bench.match(unnamed, bench.of("add", bench.x, bench.y)) == {}
    assert bench.match(unnamed, bench.of("add", bench.x, 1.0)) is None


def test_the_operands_of_one_that_is_commutative_change_places(bench):
    form = form_of(Add, form_of(Negate, TensorForm("x")), TensorForm("y"))
    value = bench.of("add", bench.y, bench.of("negate", bench.x))
    assert bench.match(form, value) is None
    either = form_of(Add, *form.operands, is_commutative=True)
    assert bench.match(either, value) == {"x": bench.x, "y": bench.y}


def test_a_number_stands_as_it_is_or_is_repeated(bench):
    form = form_of(Multiply, TensorForm("x"), Number())
    graph = bench.graph
    one = graph.constant(0.5, graph.input((1,), "float32").type)
    wide = graph.broadcast_in_dim(graph.reshape(one, ()), SHAPE, ())
    for number in (0.5, wide):
        value = bench.of("multiply", bench.x, number)
        assert bench.match(form, value) == {"x": bench.x}
        assert number_of(Producers.of_graph(graph).nodes, number) == 0.5
    assert bench.match(form, bench.of("multiply", bench.x, bench.y)) is None


@pytest.mark.parametrize("many", [1, 2, 3])
def test_readers_are_counted_outputs_among_them(bench, many):
    inner = bench.of("exponential", bench.x)
    value = bench.of("negate", inner)
    for most in (1, 2, 3):
        found = bench.match(
            form_of(Negate, form_of(Exponential, readers=most)), value, *[inner] * (many - 1)
        )
        assert (found is not None) == (many <= most)
        through = form_of(Negate, TensorForm("x", form_of(Exponential, readers=1), readers=most))
        found = bench.match(through, value, *[inner] * (many - 1))
        assert (found is not None) == (many <= most)


def test_what_is_looked_through_has_one_reader(bench):
    inner = bench.of("exponential", bench.x)
    short = bench.of("convert", inner, dtype="bfloat16")
    value = bench.of("negate", short)
    form = form_of(
        Negate, form_of(Exponential, skips=lambda node: isinstance(node.operation, Convert))
    )
    assert bench.match(form, value) is not None
    assert bench.match(form, value, inner) is None
    assert bench.match(form, value, short) is not None
    assert bench.match(form_of(Negate, form_of(Exponential)), value) is None


def test_a_condition_sees_a_node_and_what_is_read_of_it(bench):
    wide = bench.of("convert", bench.of("exponential", bench.x), dtype="bfloat16")
    value = bench.of("negate", wide)
    seen = []

    def suits(node, read):
        seen.append((node.name, read))
        return False

    form = form_of(Exponential, where=suits, skips=lambda node: isinstance(node.operation, Convert))
    assert bench.match(form_of(Negate, form), value) is None
    assert seen == [("exponential", wide)]


def test_the_first_of_several_forms_that_suits(bench):
    form = Either((form_of(Negate, TensorForm("x")), form_of(Exponential, TensorForm("y"))))
    assert bench.match(form, bench.of("negate", bench.x)) == {"x": bench.x}
    assert bench.match(form, bench.of("exponential", bench.x)) == {"y": bench.x}
    assert bench.match(form, bench.of("tanh", bench.x)) is None


def test_a_chain_is_of_any_length_and_captures_its_results(bench):
    form = Chain(
        form_of((Multiply, Divide), TensorForm(), Number(), readers=1), form_of(Negate), "scaled"
    )
    base = bench.of("negate", bench.x)
    assert bench.match(form, base) == {"scaled": ()}
    half = bench.of("multiply", base, 0.5)
    third = bench.of("divide", half, 3.0)
    assert bench.match(form, third) == {"scaled": (third, half)}
    assert bench.match(form, third, half) is None
    assert bench.match(form, bench.of("multiply", bench.x, 2.0)) is None
