"""The table of what issues operations."""

import pytest

from trnsim.graph import Operation
from trnsim.graph.ops.contraction import Attention, DotGeneral
from trnsim.graph.ops.layout import Concatenate
from trnsim.graph.ops.reductions import Reduce
from trnsim.lower.emit.attending import attention
from trnsim.lower.emit.computing import product, reduction, rotation
from trnsim.lower.emit.rules import EMITTERS, emitter


@pytest.mark.parametrize(
    ("operation", "rule"),
    [
        (Attention, attention.attention),
        (DotGeneral, product.dot_general),
        (Reduce, reduction.reduce),
        (Concatenate, rotation.concatenate),
    ],
)
def test_an_operation_has_one_rule(operation, rule):
    assert EMITTERS[operation] is rule


def test_a_rule_may_be_of_several_operations(monkeypatch):
    class One(Operation, abstract=True):
        """Nothing."""

    class Other(One, abstract=True):
        """Nothing else."""

    @emitter(One, Other)
    def rule(emission, node):
        del emission, node

    monkeypatch.delitem(EMITTERS, One)
    assert EMITTERS[Other] is rule
    monkeypatch.delitem(EMITTERS, Other)
