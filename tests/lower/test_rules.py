"""The tables of what issues operations."""

import numpy as np
import pytest

from trnsim.errors import NotModelled
from trnsim.graph import OPERATIONS, Graph, Kind
from trnsim.graph.ops.contraction import Attention, DotGeneral
from trnsim.graph.ops.elementwise import Elementwise
from trnsim.graph.ops.layout import Concatenate, Pad, Reinterpret, Reverse
from trnsim.graph.ops.reductions import Reduce, Sort
from trnsim.lower import fusion_groups, launch
from trnsim.lower.emit.attending import attention
from trnsim.lower.emit.computing import product, reduction, rotation
from trnsim.lower.kernels import integers, movement
from trnsim.lower.rules import EMITTERS, TILE_RULES, emitter, kernel, tile_rule


@pytest.mark.parametrize(
    ("operation", "rule"),
    [
        (Attention, attention.attention),
        (DotGeneral, product.dot_general),
        (Reduce, reduction.reduce),
        (Concatenate, rotation.concatenate),
        (Reinterpret, movement.reinterpret),
    ],
)
def test_an_operation_has_one_rule(operation, rule):
    assert EMITTERS[operation] is rule


def test_a_rule_is_declared_for_each_operation_named_and_stays_what_it_was():
    class Made(Pad, abstract=True):
        """No operation of graphs."""

    class MadeToo(Pad, abstract=True):
        """No operation of graphs."""

    def run(): ...

    for table, declare in ((EMITTERS, emitter), (TILE_RULES, tile_rule)):
        assert declare(Made, MadeToo)(run) is run
        assert table.pop(Made) is table.pop(MadeToo) is run


def test_a_kernel_is_run_from_hbm_to_hbm():
    class Made(Pad, abstract=True):
        """No operation of graphs."""

    class Asked:
        def run_kernel(self, *what):
            self.what = what

    def run(): ...

    emission, node = Asked(), object()
    assert kernel(Made)(run) is run
    EMITTERS.pop(Made)(emission, node)
    assert emission.what == (run, node)


def test_rules_are_of_operations_that_are_declared():
    assert Reverse in EMITTERS
    assert {*TILE_RULES} <= {*OPERATIONS.values()}
    assert {one for one in EMITTERS if one.name in OPERATIONS} <= {*OPERATIONS.values()}


def test_rules_on_tiles_are_of_elementwise_operations():
    assert all(one.kind is Kind.ELEMENTWISE for one in TILE_RULES)
    assert all(one.kind is not Kind.ELEMENTWISE for one in EMITTERS)


def test_every_elementwise_operation_has_one_way_onto_tiles():
    """An operator, a function, or a rule; of integers alone the exact rules."""
    for operation in OPERATIONS.values():
        if issubclass(operation, Elementwise):
            is_one = bool(operation.alu) or bool(operation.activation)
            has_rule = operation in TILE_RULES
            assert is_one or has_rule or operation in integers._RULES, operation.name
            assert not (is_one and has_rule), f"{operation.name} has two"


def test_a_group_that_was_not_made_legal_names_what_has_kernels():
    g = Graph()
    g.outputs = list(g.apply_to_all(Sort(0), [g.input((4,), "float32")]))
    with pytest.raises(NotModelled, match="sort has no kernel yet; there are kernels for chains"):
        launch(fusion_groups(g)[0], [np.zeros(4, np.float32)], "trn2")
