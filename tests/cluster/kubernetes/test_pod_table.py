"""The pods of a node by core and device."""

from trnsim.cluster.kubernetes.node_devices import NEURON, NEURONCORE, ContainerHolding, NodeDevices
from trnsim.cluster.kubernetes.pod_table import pod_table
from trnsim.instance.model import instance_model
from trnsim.instance.state.pods import PodUse

TRN1 = NodeDevices(instance_model("trn1.32xlarge"))


def test_a_device_is_a_pods_with_all_of_its_cores():
    table = pod_table(TRN1, [ContainerHolding("n", "p", "c", NEURON, ("3",))], 15.0)
    assert table.neuroncores_k8s_info == dict.fromkeys(("6", "7"), PodUse("p", "n", ("c",)))
    assert table.neurondevices_k8s_info == {"3": PodUse("p", "n", ("c",))}
    assert (table.period, table.error) == (15.0, "")


def test_containers_of_one_pod_share_a_device():
    held = [
        ContainerHolding("n", "p", name, NEURONCORE, (core,))
        for name, core in (("b", "1"), ("a", "0"))
    ]
    table = pod_table(TRN1, held, 15.0)
    assert table.neuroncores_k8s_info["1"].container_name == ("b",)
    assert table.neurondevices_k8s_info == {"0": PodUse("p", "n", ("a", "b"))}


def test_a_device_of_two_pods_is_the_one_with_the_lowest_core():
    held = [
        ContainerHolding("n", name, "c", NEURONCORE, (core,))
        for name, core in (("q", "1"), ("p", "0"))
    ]
    assert pod_table(TRN1, held, 15.0).neurondevices_k8s_info["0"].pod_name == "p"


def test_no_pods_are_an_empty_table():
    assert pod_table(TRN1, [], 15.0).neuroncores_k8s_info == {}


def test_ids_of_another_plugin_are_the_tables_error():
    table = pod_table(TRN1, [ContainerHolding("n", "p", "c", NEURON, ("neuron0",))], 15.0)
    assert table.error == "aws.amazon.com/neuron has no 'neuron0' on trn1.32xlarge; legal: 0 to 15"
    assert table.neuroncores_k8s_info == {}
