"""The compiler's choices: how far instructions overtake others, and their names."""

from math import inf

import pytest

from trnsim.errors import BadInput
from trnsim.isa import Engine
from trnsim.timing import Policy, policy_of
from trnsim.timing.compiler_policy import DEFAULT, POLICIES


def test_the_window_is_one_where_instructions_start_as_issued_and_wider_for_the_compiler():
    assert policy_of("issued").window(Engine.vector) == 1
    assert policy_of("compiler").window(Engine.vector) == policy_of("compiler").ahead > 1


@pytest.mark.parametrize("policy", [*POLICIES.values(), Policy("narrow", 2)])
def test_transfers_have_no_window_and_every_other_engine_the_same(policy):
    assert policy.window(Engine.dma) == inf
    assert {policy.window(engine) for engine in set(Engine) - {Engine.dma}} == {policy.ahead}


def test_each_policy_is_found_by_its_name_and_the_compilers_is_the_default():
    assert {name: policy_of(name).name for name in POLICIES} == {
        "compiler": "compiler",
        "issued": "issued",
    }
    assert policy_of("compiler") is DEFAULT


@pytest.mark.parametrize("order", ["", "Compiler", "kernel", None, 1, ["issued"]])
def test_another_order_is_refused(order):
    with pytest.raises(BadInput) as caught:
        policy_of(order)
    assert caught.value.reason == f"order {order!r} is not known; legal: compiler, issued"
    assert "leave it out" in caught.value.fix
    assert caught.value.source == "trnsim.run"
