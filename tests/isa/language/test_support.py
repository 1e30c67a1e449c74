"""What a core has not is refused in one form, with the cores that have it."""

import pytest

from trnsim.errors import IllegalInstruction
from trnsim.isa import Instruction
from trnsim.isa.language.support import check_support
from trnsim.isa.reference.example import examples

COPY = next(examples(Instruction.registry["tensor_copy"]))


def third(core):
    return core.generation > 2


def test_what_the_core_has_passes(core_v3):
    check_support(COPY, core_v3, third, "")


def test_the_refusal_says_where_it_is_legal_and_what_to_do(core_v2):
    with pytest.raises(IllegalInstruction) as caught:
        check_support(COPY, core_v2, third, "leave it out, or run with target='{target}'")
    assert caught.value.reason == ("tensor_copy: on NeuronCore-v2; legal from NeuronCore-v3 on")
    assert caught.value.fix == "leave it out, or run with target='trn2'"
    assert caught.value.source == "nki.isa.tensor_copy"


def test_what_was_given_and_another_source_are_told(core_v2):
    with pytest.raises(IllegalInstruction) as caught:
        check_support(COPY, core_v2, third, "wait", request="x on it", source="a page")
    assert caught.value.reason == "tensor_copy: x on it; legal from NeuronCore-v3 on"
    assert caught.value.source == "a page"
