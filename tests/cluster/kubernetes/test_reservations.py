"""Sets that a scheduler extension wrote on pods, for a plugin that is told no pod."""

from trnsim.cluster.kubernetes.node_devices import (
    NEURON,
    NEURONCORE,
    NEURONDEVICE,
    ContainerHolding,
)
from trnsim.cluster.kubernetes.reservations import first_reserved, reservations

HERE = {"nodeName": "node-a"}


def pod(objects, name, demand, at, **annotations):
    objects.pod(
        name,
        demand,
        spec=HERE,
        metadata={"annotations": annotations},
        status={"conditions": [{"type": "PodScheduled", "lastTransitionTime": at}]},
    )


def ids(api, resource, count, holdings=()):
    return first_reserved(reservations(api, "node-a", holdings), resource, count, 2)


def test_the_pod_that_was_scheduled_first_has_its_set(cluster):
    objects, api = cluster
    pod(objects, "late", (2,), "2026-01-01T00:00:02Z", **{"trnsim/neuron-sets": "c0=8,9,10,11"})
    pod(objects, "early", (2,), "2026-01-01T00:00:01Z", **{"trnsim/neuron-sets": "c0=4,5,6,7"})
    assert ids(api, NEURON, 2) == ids(api, NEURONDEVICE, 2) == ["2", "3"]
    held = [ContainerHolding("default", "early", "c0", NEURON, ("2", "3"))]
    assert ids(api, NEURON, 2, held) == ["4", "5"]


def test_a_set_of_cores_is_for_a_request_of_cores(cluster):
    objects, api = cluster
    pod(objects, "a", (2, "neuroncore"), "", **{"trnsim/neuron-sets": "c0=6,7"})
    assert ids(api, NEURONCORE, 2) == ["6", "7"]
    assert ids(api, NEURONCORE, 1) is None
    assert ids(api, NEURON, 1) is None


def test_awss_own_annotation_is_read_of_a_pod_with_one_container(cluster):
    objects, api = cluster
    pod(objects, "a", (1,), "", NEURON_CORES="10,11")
    objects.pod("b", (1,), (1,), spec=HERE, metadata={"annotations": {"NEURON_CORES": "0,1,2,3"}})
    assert ids(api, NEURON, 1) == ["5"]
    assert len(reservations(api, "node-a", [])) == 1


def test_pods_of_other_nodes_and_pods_that_ended_have_none(cluster):
    objects, api = cluster
    pod(objects, "ended", (1,), "", NEURON_CORES="0,1")
    objects.pods["default/ended"]["status"]["phase"] = "Succeeded"
    pod(objects, "elsewhere", (1,), "", NEURON_CORES="0,1")
    objects.pods["default/elsewhere"]["spec"]["nodeName"] = "node-b"
    pod(objects, "without", (1,), "")
    pod(objects, "broken", (1,), "", **{"trnsim/neuron-sets": "c0=x;=;c0"})
    assert reservations(api, "node-a", []) == []


def test_a_pod_with_a_request_that_is_not_legal_keeps_no_other_from_its_set(cluster):
    objects, api = cluster
    pod(objects, "good", (1,), "", NEURON_CORES="2,3")
    pod(objects, "bad", (1,), "", NEURON_CORES="0,1")
    limits = objects.pods["default/bad"]["spec"]["containers"][0]["resources"]["limits"]
    limits |= {"aws.amazon.com/neuron": "1", "aws.amazon.com/neuroncore": "2"}
    assert ids(api, NEURON, 1) == ["1"]
