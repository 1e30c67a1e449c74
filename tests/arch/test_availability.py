"""Who has what: the words of an error follow from the table of targets."""

import pytest

from trnsim.arch import (
    TARGETS,
    advised,
    configured_cores,
    has_dtype,
    having,
    makes_pairs,
    paired,
    where,
)
from trnsim.errors import BadInput


def named(*generations):
    return lambda core: core.generation in generations


def test_the_variable_of_logical_cores_has_an_older_name(monkeypatch):
    monkeypatch.delenv("NEURON_LOGICAL_NC_CONFIG", raising=False)
    monkeypatch.delenv("NEURON_RT_VIRTUAL_CORE_SIZE", raising=False)
    assert configured_cores() is None
    monkeypatch.setenv("NEURON_RT_VIRTUAL_CORE_SIZE", "1")
    assert configured_cores() == ("NEURON_RT_VIRTUAL_CORE_SIZE", "1")
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    assert configured_cores() == ("NEURON_LOGICAL_NC_CONFIG", "2")
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "")
    assert configured_cores() == ("NEURON_RT_VIRTUAL_CORE_SIZE", "1")


def test_targets_that_have_it_come_in_the_order_of_the_table():
    assert [chip.name for chip in having(named(2, 4))] == ["trn1", "inf2", "trn3"]
    assert having(named()) == ()


@pytest.mark.parametrize(
    ("generations", "words"),
    [
        ((2, 3, 4), "from NeuronCore-v2 on"),
        ((3, 4), "from NeuronCore-v3 on"),
        ((4,), "from NeuronCore-v4 on"),
        ((2,), "on NeuronCore-v2"),
        ((3,), "on NeuronCore-v3"),
        ((2, 4), "on NeuronCore-v2 and NeuronCore-v4"),
        ((), "on no NeuronCore"),
    ],
)
def test_the_cores_that_have_it_are_named(generations, words):
    assert where(named(*generations)) == words


def test_a_fix_names_the_first_target_that_has_it():
    assert advised("run with target='{target}'", named(3, 4)) == "run with target='trn2'"
    assert advised("use {core}", named(4)) == "use NeuronCore-v4"
    assert advised("leave it out", named()) == "leave it out"
    assert advised("run with target='{target}'", named()) == "no target has it"


def test_a_format_is_asked_for_by_name(core_v3, core_v4):
    has = has_dtype("float8_e4m3fn")
    assert has(core_v4)
    assert not has(core_v3)


@pytest.mark.parametrize("name", ["trn2", "trn3"])
def test_a_core_of_a_pair_shares_the_memory_and_has_its_own_launch(name):
    core = paired(TARGETS[name])
    assert core.dma_bytes_per_s == core.dma_paired_bytes_per_s < TARGETS[name].core.dma_bytes_per_s
    assert core.launch_s == core.paired_launch_s
    assert makes_pairs(core)


@pytest.mark.parametrize("name", ["trn1", "inf2"])
def test_a_core_without_pairs_is_refused_and_others_are_named(name):
    assert not makes_pairs(TARGETS[name].core)
    with pytest.raises(BadInput) as caught:
        paired(TARGETS[name])
    assert caught.value.reason == (
        "a kernel launched as kernel[2] on NeuronCore-v2; legal: kernel[1], as its cores cannot "
        "be paired"
    )
    assert caught.value.fix == "launch the kernel without [2], or run it for trn2 or trn3"
    assert "logical-neuroncore-config.rst" in caught.value.source
