import pytest
from fake_api import Objects, container

from trnsim.cluster.kubernetes.nodes import NeuronNode, free_cores, neuron_node
from trnsim.errors import BadInput


def bound(name, cores, count=1):
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "annotations": {} if cores is None else {"NEURON_CORES": cores},
        },
        "spec": {"nodeName": "n", "containers": [container("a", count)]},
    }


def test_a_node_is_what_its_label_and_its_plugin_say():
    node = Objects().node("n", "trn2.48xlarge", 16, 64)
    assert neuron_node(node) == NeuronNode("n", "trn2.48xlarge", 16, 4)
    assert neuron_node(node).cores == range(64)
    assert neuron_node(node).cores_of([1, 3]) == {*range(4, 8), *range(12, 16)}


def test_cores_that_no_plugin_advertises_are_those_of_the_chip(monkeypatch):
    monkeypatch.delenv("NEURON_LOGICAL_NC_CONFIG", raising=False)
    assert neuron_node(Objects().node("n", "inf1.6xlarge", 4)).cores_per_device == 4
    assert neuron_node(Objects().node("n", "trn1.32xlarge", 16)).cores_per_device == 2
    assert neuron_node(Objects().node("n", "trn1.32xlarge", 16, 33)).cores_per_device == 2


def test_former_names_of_label_and_resource_are_read():
    node = Objects().node("n", "inf2.24xlarge", 0)
    node["metadata"]["labels"] = {"beta.kubernetes.io/instance-type": "inf2.24xlarge"}
    node["status"]["capacity"] = {"aws.amazon.com/neurondevice": "6"}
    assert neuron_node(node).devices == 6


@pytest.mark.parametrize(
    ("text", "broken"), [("3,7", {3, 7}), ("0", {0}), ("", set()), ("x", set()), ("1;2", set())]
)
def test_broken_devices_are_those_of_the_annotation(text, broken):
    node = Objects().node("n", "trn2.48xlarge", 16, 64, **{"trnsim/unhealthy-devices": text})
    assert neuron_node(node).unhealthy == broken


@pytest.mark.parametrize(
    ("instance", "devices", "message"),
    [
        ("trn9.48xlarge", 16, "instance 'trn9.48xlarge' is not known"),
        ("p5.48xlarge", 8, "has h100, no Neuron devices"),
        ("trn2.48xlarge", 0, "node n (trn2.48xlarge) advertises no aws.amazon.com/neuron"),
        (
            "inf2.24xlarge",
            7,
            "node n advertises 7 aws.amazon.com/neuron; legal on inf2.24xlarge: at",
        ),
    ],
)
def test_a_node_that_cannot_hold_pods_is_told(instance, devices, message):
    with pytest.raises(BadInput) as caught:
        neuron_node(Objects().node("n", instance, devices))
    assert message in caught.value.reason


def test_a_node_without_label_is_told():
    node = Objects().node("n", "trn2.48xlarge", 16)
    del node["metadata"]["labels"]
    with pytest.raises(BadInput, match=r"node n has no label node.kubernetes.io/instance-type"):
        neuron_node(node)
    with pytest.raises(BadInput, match="has no label"):
        neuron_node({})


def test_free_cores_are_of_healthy_devices_and_no_pod_s():
    node = NeuronNode("n", "inf2.24xlarge", 6, 2, frozenset({5}))
    assert free_cores(node, []) == set(range(10))
    assert free_cores(node, [bound("a", "0,1"), bound("b", "4")]) == {2, 3, 5, 6, 7, 8, 9}
    assert free_cores(node, [bound("a", "10,11,999")]) == set(range(10))  # of a larger node


def test_two_pods_on_a_device_are_told():
    node = NeuronNode("n", "inf2.24xlarge", 6, 2)
    with pytest.raises(BadInput) as caught:
        free_cores(node, [bound("a", "0,1"), bound("b", "1,2")])
    assert caught.value.reason == "node n: pods default/a and default/b both hold core 1"
    assert caught.value.fix == "delete one of them: kubectl delete pod -n default b"


def test_a_pod_that_does_not_say_what_it_holds_is_told():
    with pytest.raises(BadInput, match="pod default/a on node n requests Neuron devices"):
        free_cores(NeuronNode("n", "inf2.24xlarge", 6, 2), [bound("a", None)])
