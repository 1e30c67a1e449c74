import ast
from itertools import count

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from torch_neuronx.xla_impl import structure

from trnsim.torch.traces.structure import nesting_of
from trnsim.xla.neuronx.list_forms import Flattener, Packer

NAMES = ["r0", "r1", "r2", "r3", "r4", "r5"]


def test_a_result_is_packed_again_by_the_texts_of_a_packers_attributes():
    value = {"a": [torch.ones(1), torch.zeros(2)], "b": [torch.ones(3), torch.ones(4)]}
    whole = (value, (torch.ones(5), None, 7), torch.ones(6))
    packer = Packer.of(nesting_of(whole, count(), []))
    texts = [str(part) for part in (packer.layout, packer.identifiers, packer.constants)]
    for each in (packer, structure.Packer(*map(ast.literal_eval, texts))):
        assert each(NAMES) == ({"a": ["r0", "r1"], "b": ["r2", "r3"]}, ("r4", None, 7), "r5")
    assert packer.identifiers == [0, 1, 2, 3, 4, 5]


def test_a_single_tensor_and_a_single_constant_are_packed():
    assert Packer.of(nesting_of(torch.ones(1), count(), []))(NAMES) == "r0"
    assert Packer.of(nesting_of(None, count(), []))(NAMES) is None


def test_arguments_that_a_program_does_not_take_are_left_out():
    assert structure.Flattener is Flattener
    assert Flattener((0, 1, 2))(NAMES) == ["r0", "r1", "r2"]
    assert Flattener([2, 0, 1], [0])(NAMES) == ["r2", "r1"]
