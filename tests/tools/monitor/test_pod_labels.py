import pytest

from trnsim.tools.monitor.pod_labels import PodLabels, pod_labels

USE = {"pod_name": "train-0", "namespace": "team", "container_name": ["main", "side"]}
LABELS = {"pod": "train-0", "namespace": "team", "container": "main,side"}
NONE = {"pod": "", "namespace": "", "container": ""}
REPORT = {
    "neuron_k8s_info": {
        "period": 15.0,
        "neuroncores_k8s_info": {"10": USE},
        "neurondevices_k8s_info": {"5": USE},
        "error": "",
    }
}


def test_cores_and_devices_have_their_pods_labels():
    found = pod_labels(REPORT)
    assert found.of_core("10") == found.of_device("5") == LABELS
    assert found.of_core("5") == found.of_device("10") == NONE


def test_a_program_has_the_labels_of_its_first_core():
    found = pod_labels(REPORT)
    used = {"neuroncore_counters": {"neuroncores_in_use": {"10": {}, "9": {}}}}
    assert found.of_program({"report": used}) == NONE
    used = {"neuroncore_counters": {"neuroncores_in_use": {"11": {}, "10": {}}}}
    assert found.of_program({"report": used}) == LABELS


def test_a_program_whose_counters_are_not_measured_is_known_by_its_memory():
    memory = {"usage_breakdown": {"neuroncore_memory_usage": {"10": {}}}}
    report = {"memory_used": {"neuron_runtime_used_bytes": memory}}
    assert pod_labels(REPORT).of_program({"report": report}) == LABELS
    assert pod_labels(REPORT).of_program({"report": {}}) == NONE


@pytest.mark.parametrize("report", [{}, {"neuron_k8s_info": None}, {"neuron_k8s_info": {}}])
def test_a_report_without_pods_has_empty_labels(report):
    assert pod_labels(report).of_core("0") == NONE


def test_where_pods_are_not_shown_there_are_no_labels():
    nothing = PodLabels()
    assert nothing.of_core("0") == nothing.of_device("0") == {}
    assert nothing.of_program({"report": {}}) == {}


@pytest.mark.parametrize("info", [{"neuroncores_k8s_info": {"0": {}}}, [1], "x"])
def test_a_report_of_another_form_is_an_error_of_the_report(info):
    with pytest.raises((AttributeError, KeyError, TypeError)):
        pod_labels({"neuron_k8s_info": info})
