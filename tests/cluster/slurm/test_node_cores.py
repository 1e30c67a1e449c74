"""The cores of a step on a node: by its devices, which must be a legal set."""

import os
from dataclasses import replace

import pytest
from slurm_cases import FIRST, STEP, ask

from trnsim.cluster.slurm import claim
from trnsim.cluster.slurm.node_cores import node_cores, node_devices
from trnsim.errors import BadInput
from trnsim.instance.model import instance_model

TRN2 = instance_model("trn2.48xlarge", 2)


def test_the_cores_are_those_of_the_devices():
    assert node_cores(FIRST, TRN2, {}, ask()) == range(16)
    assert node_cores(STEP, TRN2, {}, ask()) == range(16, 32)
    assert node_cores(STEP, instance_model("trn2.48xlarge", 1), {}, ask()) == range(32, 64)
    assert node_cores(STEP, TRN2, {}, ask(second="neuron:1(IDX:15)")) == range(60, 64)


def test_a_cluster_without_declared_devices_gives_all_cores():
    assert node_cores(FIRST, TRN2, {}, ask(first="", second="")) == range(64)


def test_named_cores_narrow_the_steps():
    assert node_cores(STEP, TRN2, {"NEURON_RT_VISIBLE_CORES": "16-17"}, ask()) == range(16, 18)
    for named in ("15-16", "32", "0-3"):
        with pytest.raises(BadInput) as raised:
            node_cores(STEP, TRN2, {"NEURON_RT_VISIBLE_CORES": named}, ask())
        assert raised.value.reason == (
            f"NEURON_RT_VISIBLE_CORES={named!r}; legal: cores 16 to 31, of devices 4-7 that step "
            "7.0 has on n2"
        )


def test_named_cores_stand_for_the_steps_without_scontrol():
    assert node_cores(STEP, TRN2, {"NEURON_RT_VISIBLE_CORES": "8-15"}) == range(8, 16)
    with pytest.raises(BadInput, match="there is no scontrol on PATH"):
        node_cores(STEP, TRN2, {})


def test_devices_that_are_no_set_are_refused_with_the_legal_ones():
    with pytest.raises(BadInput) as raised:
        node_devices(FIRST, TRN2, ask(first="neuron:4(IDX:8-9,11-12)"))
    assert raised.value.reason == (
        "Slurm gave step 7.0 the devices 8,9,11,12 of n1; legal sets of 4 on trn2.48xlarge: "
        "0-3, 4-7, 8-11, 12-15"
    )
    assert "dra.rst" in raised.value.source


def test_a_number_that_no_set_has_is_refused_in_awss_words():
    with pytest.raises(BadInput) as raised:
        node_devices(FIRST, instance_model("trn1.32xlarge"), ask(first="neuron:2(IDX:0-1)"))
    assert raised.value.reason.startswith(
        "Instance type trn1.32xlarge does not support requests for device: 2."
    )
    assert raised.value.fix == "request 1, 4, 8 or 16"


def test_a_device_that_the_instance_lacks_is_refused():
    with pytest.raises(BadInput, match=r"device 7 of n2; trn2\.3xlarge has 1, 0 to 0"):
        node_devices(STEP, instance_model("trn2.3xlarge"), ask())


@pytest.fixture
def _released():
    yield
    while claim._lock_files:
        os.close(claim._lock_files.pop())


@pytest.mark.usefixtures("_released")
def test_a_step_with_fewer_devices_than_its_job_takes_some_of_them(tmp_path):
    question = ask(more="   TresPerNode=gres:neuron:1")
    own = [node_devices(replace(FIRST, step=step), TRN2, question, tmp_path) for step in range(4)]
    assert sorted(own) == [(0,), (1,), (2,), (3,)]
    with pytest.raises(BadInput, match=r"step 7\.0 has 1 device on n1; no legal set"):
        node_devices(FIRST, TRN2, question, tmp_path)
    with pytest.raises(BadInput, match="does not support requests for device: 2"):
        node_devices(FIRST, TRN2, ask(more="   TresPerNode=gres:neuron:2"), tmp_path)
