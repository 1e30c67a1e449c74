import pytest
from fake_api import container

from trnsim.cluster.kubernetes.pods import (
    ContainerDemand,
    demands,
    has_ended,
    held_cores,
    node_of,
    placement_annotations,
    title,
    uid,
)
from trnsim.errors import BadInput


def pod(*containers, initial=(), phase="Running", **annotations):
    return {
        "metadata": {"name": "p", "namespace": "n", "uid": "u", "annotations": annotations},
        "spec": {"nodeName": "host", "containers": [*containers], "initContainers": list(initial)},
        "status": {"phase": phase},
    }


def test_a_pod_is_named_with_its_namespace():
    assert (title(pod()), uid(pod()), node_of(pod())) == ("n/p", "u", "host")
    assert (title({}), uid({}), node_of({})) == ("default/", "", "")


def test_each_container_has_a_demand_of_its_own():
    proxy = {**container("proxy", 1, "neuroncore"), "restartPolicy": "Always"}
    both = pod(
        container("a", 4),
        container("b", 2, "neuroncore"),
        container("c", 1, "neurondevice"),
        container("d"),
        container("e", 0),
        initial=[container("warm", 8), proxy],
    )
    assert demands(both) == [
        ContainerDemand("warm", 8, is_of_cores=False, is_initial=True),
        ContainerDemand("proxy", 1, is_of_cores=True),  # it runs beside the others
        ContainerDemand("a", 4, is_of_cores=False),
        ContainerDemand("b", 2, is_of_cores=True),
        ContainerDemand("c", 1, is_of_cores=False),
    ]
    assert demands({}) == []
    assert demands({"spec": {"containers": [{"name": "x", "resources": None}]}}) == []


@pytest.mark.parametrize(
    ("quantity", "count"), [("16", 16), ("1k", 1000), (4, 4), ("0", None), ("000", None)]
)
def test_a_quantity_is_a_whole_number(quantity, count):
    resources = {"limits": {"aws.amazon.com/neuron": quantity}}
    found = demands(pod({"name": "a", "resources": resources}))
    assert [each.count for each in found] == ([] if count is None else [count])


@pytest.mark.parametrize("quantity", ["1.5", "100m", "-1", "", "٣", "9" * 10, None, "1 "])
def test_another_quantity_is_refused(quantity):
    resources = {"requests": {"aws.amazon.com/neuroncore": quantity}}
    with pytest.raises(BadInput, match=r"pod n/p: aws.amazon.com/neuroncore is .*; legal: a whole"):
        demands(pod({"name": "a", "resources": resources}))


def test_a_container_requests_one_resource():
    resources = {"limits": {"aws.amazon.com/neuron": "1", "aws.amazon.com/neuroncore": "2"}}
    with pytest.raises(BadInput) as caught:
        demands(pod({"name": "a", "resources": resources}))
    assert caught.value.reason == (
        "pod n/p, container a: requests aws.amazon.com/neuron and aws.amazon.com/neuroncore; "
        "legal: one of them"
    )
    assert caught.value.fix == "request aws.amazon.com/neuron alone"


def test_annotations_name_devices_or_cores():
    four = [ContainerDemand("a", 2, is_of_cores=False)]
    assert placement_annotations(four, {"a": (8, 9, 10, 11)}, 2, 5) == {
        "NEURON_CORES": "8,9,10,11",
        "AWS_NEURON_IDS": "4,5",
        "NEURON_RESOURCE_TYPE": "aws.amazon.com/neuron",
        "NEURON_ALLOCATED": "false",
        "NEURON_ALLOC_TIME": "5",
        "trnsim/neuron-sets": "a=8,9,10,11",
    }
    mixed = [ContainerDemand("a", 1, is_of_cores=False), ContainerDemand("b", 1, is_of_cores=True)]
    written = placement_annotations(mixed, {"a": (2, 3), "b": (0,)}, 2, 5)
    assert written["AWS_NEURON_IDS"] == written["NEURON_CORES"] == "0,2,3"
    assert written["NEURON_RESOURCE_TYPE"] == "aws.amazon.com/neuroncore"
    assert written["trnsim/neuron-sets"] == "a=2,3;b=0"


def test_held_cores_are_those_of_the_annotations():
    devices, cores = container("a", 2), container("a", 2, "neuroncore")
    assert held_cores(pod(devices, NEURON_CORES="2,3,4,5"), 2) == {2, 3, 4, 5}
    assert held_cores(pod(devices, AWS_NEURON_IDS="1,2"), 4) == set(range(4, 12))
    assert held_cores(pod(cores, AWS_NEURON_IDS="1,2"), 4) == {1, 2}
    assert held_cores(pod(cores, NEURON_CORES="7", AWS_NEURON_IDS="1,2"), 4) == {7}
    assert held_cores(pod(container("a"), NEURON_CORES="7"), 2) == frozenset()


@pytest.mark.parametrize(("phase", "ended"), [("Succeeded", True), ("Failed", True)])
def test_an_ended_pod_holds_nothing(phase, ended):
    own = pod(container("a", 1), phase=phase, NEURON_CORES="1")
    assert has_ended(own) == ended
    assert held_cores(own, 2) == frozenset()
    assert not has_ended(pod())
    assert not has_ended({})


@pytest.mark.parametrize("text", [None, "", "a", "1,", ",1", "1-2", "-1", "1,,2", "9" * 7, "1\n"])
def test_an_annotation_that_names_no_core_is_told(text):
    own = pod(container("a", 1), **({} if text is None else {"NEURON_CORES": text}))
    with pytest.raises(BadInput, match=r"pod n/p on node host requests Neuron devices, and its"):
        held_cores(own, 2)
