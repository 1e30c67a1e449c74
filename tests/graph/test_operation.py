"""How an operation is declared, and what every declared one must say."""

import inspect

import pytest

from trnsim.errors import BadInput
from trnsim.graph import OPERATIONS, Graph, Kind, Operation, TensorType
from trnsim.graph import ops as families
from trnsim.graph.ops.elementwise import Elementwise, Unary
from trnsim.graph.types import ELEMENT_TYPES, INTEGERS

FOUR = TensorType((4,), "float32")


@pytest.fixture
def declared():
    """An operation that is declared for one test."""

    class Twice(Unary, alu="add", source="a page"):
        """``2 * operand``."""

        legal = (("float32", "int8"),)
        places: int = 1

        def reference(self, operand):
            return operand + operand

    yield Twice
    del OPERATIONS["twice"]


def test_a_class_is_an_operation_of_its_name(declared):
    assert OPERATIONS["twice"] is declared
    assert (declared.name, declared.kind, declared.source) == (
        "twice",
        Kind.ELEMENTWISE,
        "a page",
    )
    assert declared(3) == declared(places=3) != declared()
    assert hash(declared(3)) == hash(declared(3))
    with pytest.raises(AttributeError):
        declared().places = 2


def test_words_of_a_name_are_parted():
    assert "select_and_scatter" in OPERATIONS
    assert "top_k" in OPERATIONS
    assert OPERATIONS["top_k"].source == "CHLO dialect, top_k"
    assert OPERATIONS["maximum"].source == "StableHLO Specification, maximum"
    assert "elementwise" not in OPERATIONS  # what a family shares is no operation


def test_an_operation_that_is_declared_is_one_of_a_graph(declared):
    g = Graph()
    g.outputs = [g.elementwise("twice", g.input((4,), "int8"))]
    assert g.nodes[0].operation == declared()
    assert [case.operands[0].dtype for case in declared.examples()] == ["float32", "int8"]


def test_operands_of_another_number_are_refused(declared):
    with pytest.raises(BadInput, match="twice takes operand; given 2") as caught:
        declared().check((FOUR, FOUR))
    assert caught.value.source == "a page"
    with pytest.raises(BadInput, match="iota takes no operands; given 1"):
        OPERATIONS["iota"]((4,)).check((FOUR,))
    with pytest.raises(BadInput, match=r"dynamic_slice takes operand, \*starts; given 0"):
        OPERATIONS["dynamic_slice"]().check(())


def test_operands_of_another_element_type_are_refused(declared):
    with pytest.raises(
        BadInput, match="twice of tensor<4xint32> as operand; legal: float32, int8"
    ) as caught:
        declared().check((TensorType((4,), "int32"),))
    assert caught.value.fix == "convert it"
    with pytest.raises(BadInput, match=r"dynamic_slice of tensor<float32> as starts; legal: int32"):
        OPERATIONS["dynamic_slice"]().check((FOUR, TensorType((), "float32")))


def test_what_an_operation_leaves_out_is_no_silent_answer():
    class Nothing(Operation, kind=Kind.KERNEL, abstract=True):
        """Nothing."""

    with pytest.raises(NotImplementedError):
        Nothing().types(FOUR)
    with pytest.raises(NotImplementedError):
        Nothing.examples()
    assert Nothing().flop(FOUR) == 0


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_says_what_it_is(name):
    operation = OPERATIONS[name]
    assert isinstance(operation.kind, Kind)
    assert operation.source
    assert inspect.getdoc(operation).strip()
    assert "reference" in {key for one in operation.__mro__[:-2] for key in vars(one)}
    assert all(set(one) <= {*ELEMENT_TYPES} for one in operation.legal)
    assert len(operation.legal) <= max(len(operation.operands), 1)
    assert all("*" not in one for one in operation.operands[:-1])


@pytest.mark.parametrize("name", OPERATIONS)
def test_examples_are_legal(name):
    for example in OPERATIONS[name].examples():
        assert type(example.operation) is OPERATIONS[name]
        assert len(example.values) in (0, len(example.operands))
        example.operation.check(example.operands)
        assert example.operation.types(*example.operands)
        assert hash(example.operation) == hash(example.operation)


def test_each_family_declares_operations_and_each_operation_has_a_family():
    files = {operation.__module__ for operation in OPERATIONS.values()}
    assert files == {f"trnsim.graph.ops.{name}" for name in families.__all__}


def test_an_elementwise_operation_is_done_by_one_operator_or_function_at_most():
    for operation in OPERATIONS.values():
        if issubclass(operation, Elementwise):
            assert not (operation.alu and operation.activation), operation.name
            assert operation.number is None or operation.alu, operation.name


def test_every_type_of_integer_has_an_example_where_all_integers_are_legal():
    for name in ("add", "popcnt", "shift_left", "divide"):
        found = {example.operands[0].dtype for example in OPERATIONS[name].examples()}
        assert {*INTEGERS} <= found


def test_a_refusal_without_a_fix_of_its_own_says_where_to_read():
    g = Graph()
    with pytest.raises(BadInput) as caught:
        g.elementwise("add", g.input((2, 3), "float32"), g.input((3,), "float32"))
    assert caught.value.fix == "help(trnsim.graph.OPERATIONS['add']) says what is legal"
