"""Faults as a node's condition and events, over an API in this process."""

import re
import time
from pathlib import Path

import pytest

from trnsim.cluster.kubernetes.api import ApiDown
from trnsim.cluster.kubernetes.node_devices import ContainerHolding, NodeDevices
from trnsim.cluster.kubernetes.node_problems import (
    NodeProblems,
    ReportedNode,
    matched_faults,
    write_kernel_line,
)
from trnsim.errors import BadInput
from trnsim.instance.model import instance_model
from trnsim.instance.state import hardware

HELD = [
    ContainerHolding("default", "train", "main", "aws.amazon.com/neuron", ("3", "2")),
    ContainerHolding("default", "serve", "main", "aws.amazon.com/neuroncore", ("8",)),
    ContainerHolding("default", "gone", "main", "aws.amazon.com/neuroncore", ("6",)),
]


@pytest.fixture
def node(cluster, tmp_path):
    objects, api = cluster
    objects.node("node-a", "trn1.32xlarge", 16)["status"]["conditions"] = [
        {"type": "Ready", "status": "True"}
    ]
    for name in ("train", "serve"):
        objects.pod(name, (1,))
    devices = NodeDevices(instance_model("trn1.32xlarge"))
    return objects, api, ReportedNode("node-a", devices, tmp_path, lambda: HELD)


def inject(node, kind, device, core=None):
    fault = hardware.StoredFault(kind, device, core, 1_700_000_000.0, None, serial_number="ab")
    return hardware.inject(node.state, fault)


def condition(objects):
    (found,) = (
        each
        for each in objects.nodes["node-a"]["status"]["conditions"]
        if each["type"] == "NeuronHealth"
    )
    return found


def test_a_node_without_faults_is_well_and_keeps_its_other_conditions(node):
    objects, api, here = node
    NodeProblems(here, api, lambda _: None).look()
    shown = condition(objects)
    assert (shown["status"], shown["reason"]) == ("False", "NeuronHasNoError")
    assert objects.nodes["node-a"]["status"]["conditions"][0]["type"] == "Ready"
    assert "trnsim/unhealthy-devices" not in objects.nodes["node-a"]["metadata"]["annotations"]
    assert objects.created_events == {}


def test_a_fault_is_a_condition_and_events_of_the_node_and_its_pods(node):
    objects, api, here = node
    said = []
    problems = NodeProblems(here, api, said.append)
    problems.look()
    stem = inject(here, "hbm-ecc", 3, 1).name.removesuffix(".json")
    problems.look()
    shown = condition(objects)
    assert shown["status"] == "True"
    assert shown["reason"] == "NeuronHasError_HBM_UNCORRECTABLE_ERROR"
    assert shown["message"].startswith("trnsim: emulated: NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR ")
    assert objects.nodes["node-a"]["metadata"]["annotations"]["trnsim/unhealthy-devices"] == "3"
    # Core 1 of device 3 is core 7: the pod with devices 2 and 3 holds it.
    assert objects.created_events.keys() == {f"node-a.{stem}", f"train.{stem}"}
    event = objects.created_events[f"train.{stem}"]
    assert event["involvedObject"]["kind"] == "Pod"
    assert event["involvedObject"]["uid"] == objects.pods["default/train"]["metadata"]["uid"]
    assert event["firstTimestamp"] == "2023-11-14T22:13:20Z"
    assert "NRT_EXEC_HW_ERR_HBM_UE (1201)" in event["message"]
    assert said[1:] == [
        "node node-a: NeuronHealth is True: NeuronHasError_HBM_UNCORRECTABLE_ERROR",
        "pod default/train: NeuronHasError_HBM_UNCORRECTABLE_ERROR",
    ]


def test_the_condition_stays_when_a_fault_ends_and_goes_with_a_reset(node):
    objects, api, here = node
    problems = NodeProblems(here, api, lambda _: None)
    inject(here, "dma", 5)
    problems.look()
    hardware.clear(here.state)
    problems.look()
    assert condition(objects)["status"] == "True"
    assert "trnsim/unhealthy-devices" not in objects.nodes["node-a"]["metadata"]["annotations"]
    hardware.reset(here.state)
    problems.look()
    assert condition(objects)["status"] == "False"


def test_a_hang_takes_the_device_and_sets_no_condition(node):
    """AWS's rules for EKS have no HANG_ON_COLLECTIVES."""
    objects, api, here = node
    inject(here, "hang", 1)
    inject(here, "thermal", 2)
    NodeProblems(here, api, lambda _: None).look()
    assert condition(objects)["status"] == "False"
    assert objects.nodes["node-a"]["metadata"]["annotations"]["trnsim/unhealthy-devices"] == "1"


def test_a_pod_that_was_deleted_in_between_is_no_error(node):
    objects, api, here = node
    inject(here, "dma", 3)  # pod "gone" holds core 6
    NodeProblems(here, api, lambda _: None).look()
    assert {name.partition(".")[0] for name in objects.created_events} == {"node-a", "train"}


def test_a_second_process_repeats_no_event_and_keeps_the_time(node):
    objects, api, here = node
    inject(here, "dma", 0)
    NodeProblems(here, api, lambda _: None).look()
    condition(objects)["lastTransitionTime"] = "2020-01-01T00:00:00Z"
    NodeProblems(here, api, lambda _: None).look()
    assert condition(objects)["lastTransitionTime"] == "2020-01-01T00:00:00Z"
    assert len(objects.created_events) == 1


def test_while_the_api_is_down_a_fault_waits(node):
    objects, api, here = node
    problems = NodeProblems(here, api, lambda _: None)
    objects.faults["all"] = "drop"
    inject(here, "dma", 0)
    with pytest.raises(ApiDown):
        problems.look()
    objects.faults.clear()
    problems.look()
    assert condition(objects)["status"] == "True"
    assert len(objects.created_events) == 1


def test_an_api_that_is_down_is_said_once(node):
    objects, api, here = node
    objects.faults["all"] = "drop"
    said = []
    problems = NodeProblems(here, api, said.append)
    looks = []
    problems.look = lambda: (
        looks.append(1),
        problems.stop() if len(looks) == 3 else None,
        NodeProblems.look(problems),
    )
    problems._end.wait = lambda _: None
    problems.run()
    assert len(looks) == 3
    assert len(said) == 1
    assert "does not answer" in said[0]


def test_a_line_of_the_kernels_log_is_what_awss_pattern_matches(tmp_path):
    log = tmp_path / "kmsg"
    log.write_text("before\n")
    fault = hardware.StoredFault("dma", 3, None, time.time(), None, serial_number="ab")
    write_kernel_line(log, fault)
    line = log.read_text().splitlines()[1]
    assert line.startswith("<3>trnsim: emulated: ")
    assert re.match(".* NEURON_HW_ERR=DMA_ERROR .*", line)


def test_new_faults_alone_are_written_into_the_kernels_log(node, tmp_path):
    log = tmp_path / "kmsg"
    log.touch()
    _, _, here = node
    inject(here, "dma", 0)
    problems = NodeProblems(here, None, lambda _: None, log)
    inject(here, "thermal", 1)
    problems.look()
    problems.look()
    assert [line.partition("ERR=")[2].split()[0] for line in log.read_text().splitlines()] == [
        "THERMAL"
    ]


def test_a_log_that_cannot_be_written_is_refused():
    fault = hardware.StoredFault("dma", 3, None, time.time(), None)
    with pytest.raises(BadInput, match="cannot write to /absent/kmsg"):
        write_kernel_line(Path("/absent/kmsg"), fault)


def test_a_reason_is_that_of_the_line(node):
    _, _, here = node
    for device, kind in enumerate(("hbm-ecc", "hang", "dma", "thermal")):
        inject(here, kind, device)
    assert [
        (fault.device, reason)
        for fault, reason in matched_faults(hardware.injected_faults(here.state))
    ] == [
        (0, "NeuronHasError_HBM_UNCORRECTABLE_ERROR"),
        (2, "NeuronHasError_DMA_ERROR"),
    ]
