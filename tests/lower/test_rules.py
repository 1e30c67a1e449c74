from trnsim.graph import OPERATIONS, Kind
from trnsim.graph.ops.elementwise import Elementwise
from trnsim.graph.ops.layout import Pad, Reverse, Transpose
from trnsim.lower.kernels import integers, issue
from trnsim.lower.rules import KERNELS, ON_TILES, kernel, on_tiles


def test_a_rule_is_declared_for_each_operation_named_and_stays_what_it_was():
    class Made(Pad, abstract=True):
        """No operation of graphs."""

    class MadeToo(Pad, abstract=True):
        """No operation of graphs."""

    def run(): ...

    for table, declare in ((KERNELS, kernel), (ON_TILES, on_tiles)):
        assert declare(Made, MadeToo)(run) is run
        assert table.pop(Made) is table.pop(MadeToo) is run


def test_kernels_are_of_operations_that_are_declared():
    assert issue.KERNELS is KERNELS
    assert {Transpose, Reverse} <= {*KERNELS}
    assert {*KERNELS, *ON_TILES} <= {*OPERATIONS.values()}


def test_rules_on_tiles_are_of_elementwise_operations():
    assert all(one.kind is Kind.ELEMENTWISE for one in ON_TILES)
    assert all(one.kind is not Kind.ELEMENTWISE for one in KERNELS)


def test_every_elementwise_operation_has_one_way_onto_tiles():
    """An operator, a function, or a rule; of integers alone the exact rules."""
    for operation in OPERATIONS.values():
        if issubclass(operation, Elementwise):
            is_one = bool(operation.alu) or bool(operation.activation)
            has_rule = operation in ON_TILES
            assert is_one or has_rule or operation in integers._RULES, operation.name
            assert not (is_one and has_rule), f"{operation.name} has two"
