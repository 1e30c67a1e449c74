"""Resources of a node: what each id stands for, its health, and who holds what."""

import time

import pytest

from trnsim.cluster.kubernetes.node_devices import (
    NEURON,
    NEURONCORE,
    NEURONDEVICE,
    ContainerHolding,
    NodeDevices,
)
from trnsim.errors import BadInput
from trnsim.instance.model import instance_model
from trnsim.instance.state.hardware import StoredFault

TRN1 = NodeDevices(instance_model("trn1.32xlarge"))  # 16 devices of 2 cores, a torus
TRN2 = NodeDevices(instance_model("trn2.48xlarge"))  # 16 devices of 4 logical cores
INF2 = NodeDevices(instance_model("inf2.48xlarge"))  # 12 devices of 2 cores, a ring


def fault(kind, device, core=None, *, for_s=None, is_cleared=False):
    return StoredFault(kind, device, core, time.time(), for_s, is_cleared)


def unhealthy(node, resource, *faults):
    return [name for name, well in node.healthy(resource, faults).items() if not well]


def test_ids_are_numbers_of_devices_and_of_cores():
    assert TRN1.ids(NEURON) == TRN1.ids(NEURONDEVICE) == [str(number) for number in range(16)]
    assert TRN1.ids(NEURONCORE) == [str(number) for number in range(32)]


def test_cores_at_lnc_1_are_physical_ones():
    assert len(NodeDevices(instance_model("trn2.48xlarge", 1)).ids(NEURONCORE)) == 128


def test_a_device_is_all_of_its_cores():
    assert TRN2.cores(NEURON, ["1", "0"]) == (0, 1, 2, 3, 4, 5, 6, 7)
    assert TRN2.devices(NEURONCORE, ["3", "4"]) == (0, 1)
    assert TRN2.devices(NEURONDEVICE, ["15"]) == (15,)


@pytest.mark.parametrize("name", ["16", "-1", "x", "", "1.0", "²", "99999999999999999999"])
def test_an_id_that_the_node_lacks_is_refused(name):
    with pytest.raises(BadInput, match="legal: 0 to 15"):
        TRN1.cores(NEURON, [name])


def test_a_fault_of_a_device_takes_all_of_it():
    assert unhealthy(TRN1, NEURON, fault("hbm-ecc", 3)) == ["3"]
    assert unhealthy(TRN1, NEURONCORE, fault("hbm-ecc", 3)) == ["6", "7"]


def test_a_fault_of_a_core_leaves_the_other_cores():
    assert unhealthy(TRN1, NEURONCORE, fault("hang", 3, 1)) == ["7"]
    assert unhealthy(TRN1, NEURON, fault("hang", 3, 1)) == ["3"]


def test_faults_that_have_ended_or_that_programs_go_on_with_take_nothing():
    ended = fault("dma", 1, is_cleared=True), fault("dma", 1, for_s=0.0), fault("thermal", 1)
    assert unhealthy(TRN1, NEURON, *ended) == []


def test_a_fault_of_a_device_beyond_the_node_takes_nothing():
    assert unhealthy(TRN1, NEURON, fault("dma", 99)) == []


def test_the_preferred_set_is_legal():
    """Row 4-7 of the torus: device 0 is taken, and 1-4 would be contiguous and no set."""
    free = [str(number) for number in range(1, 16)]
    assert TRN1.preferred(NEURON, free, [], 4) == ["4", "5", "6", "7"]


def test_the_preferred_set_has_the_needed_ids():
    assert TRN1.preferred(NEURON, TRN1.ids(NEURON), ["9"], 4) == ["8", "9", "10", "11"]
    assert TRN1.preferred(NEURONCORE, TRN1.ids(NEURONCORE), ["5"], 2) == ["4", "5"]


def test_without_a_legal_set_the_lowest_numbers_are_preferred():
    assert INF2.preferred(NEURON, ["0", "2", "4"], [], 2) == ["0", "2"]
    assert TRN1.preferred(NEURON, TRN1.ids(NEURON), ["7"], 2) == ["0", "7"]
    assert TRN1.preferred(NEURON, ["3"], [], 4) == ["3"]


def test_hardware_that_is_held_as_another_resource_is_not_preferred():
    held = [ContainerHolding("n", "p", "c", NEURONCORE, ("0",))]
    assert INF2.preferred(NEURON, INF2.ids(NEURON), [], 2, held)[0] != "0"
    assert INF2.preferred(NEURONCORE, ["0", "1"], [], 1, held) == ["0"]  # kubelet counts its own


def test_hardware_that_is_held_as_another_resource_is_a_conflict():
    held = ContainerHolding("n", "p", "c", NEURONCORE, ("6", "7"))
    assert TRN1.conflict(NEURON, ["3"], [held]) is held
    assert TRN1.conflict(NEURON, ["2", "4"], [held]) is None
    assert TRN1.conflict(NEURONCORE, ["6"], [held]) is None
    assert (
        TRN1.conflict(
            NEURON, ["3"], [ContainerHolding("n", "p", "c", "vpc.amazonaws.com/efa", ("3",))]
        )
        is None
    )


@pytest.mark.parametrize(
    ("resource", "names", "expected"),
    [
        (NEURON, ["1"], "2-3"),
        (NEURON, ["1", "0"], "0-3"),
        (NEURON, ["0", "2"], "0,1,4,5"),
        (NEURONCORE, ["31"], "31"),
        (NEURONCORE, ["4", "6"], "4,6"),
    ],
)
def test_a_container_is_told_its_cores(resource, names, expected):
    variables = TRN1.variables(resource, names)
    assert variables == {
        "NEURON_RT_VISIBLE_CORES": expected,
        "TRNSIM_INSTANCE": "trn1.32xlarge",
    }


def test_a_container_is_told_the_size_of_logical_cores():
    assert TRN2.variables(NEURON, ["0"])["NEURON_LOGICAL_NC_CONFIG"] == "2"
