"""docs/how-to-kubernetes.md: its commands parse, and its pod asks for what the page says.

`make cluster` runs the page against a real kubelet.
"""

from importlib import import_module
from io import BytesIO

import kubernetes_page
import pytest
from typer.main import get_command

from trnsim.cli import k8s, module_of
from trnsim.cluster.kubernetes.http_service import LOOPBACK, application
from trnsim.cluster.kubernetes.node_devices import NEURON, NodeDevices
from trnsim.cluster.kubernetes.pods import RESOURCES, demands
from trnsim.instance.device_sets import legal_counts, refusal
from trnsim.instance.model import instance_model

COMMANDS = kubernetes_page.commands({"SERVER": "https://10.0.0.1:6443", "NODE_NAME": "node-a"})


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_of_the_page_parses(words):
    name, *arguments = words
    command = get_command(import_module(module_of(name)).app)
    if hasattr(command, "commands"):
        command, arguments = command.commands[arguments[0]], arguments[1:]
    assert command.make_context(name, arguments).params


def test_the_page_has_its_blocks():
    assert [words[0] for words in COMMANDS] == [
        *("k8s", "k8s", "k8s", "neuron-monitor-prometheus", "neuron-monitor-k8s-info"),
    ]
    assert kubernetes_page.PAGE.count("```") == 2 * 7


def test_the_pod_gets_what_the_page_shows():
    pod, shown = kubernetes_page.pod()
    (demand,) = demands(pod)
    node = NodeDevices(instance_model("inf2.48xlarge"))
    ids = node.preferred(NEURON, node.ids(NEURON), [], demand.count)
    variables = node.variables(NEURON, ids)
    assert shown.splitlines() == [
        *(f"neuron{device}" for device in node.devices(NEURON, ids)),
        f"NEURON_RT_VISIBLE_CORES={variables['NEURON_RT_VISIBLE_CORES']}",
    ]


def test_the_configuration_of_the_page_names_calls_and_resources_that_there_are():
    (extender,) = kubernetes_page.manifest("KubeSchedulerConfiguration")["extenders"]
    assert {each["name"] for each in extender["managedResources"]} == {*RESOURCES}
    calls = {}
    answer = application(lambda _: calls.setdefault("filter", {}), lambda _: {})
    environment = {"REQUEST_METHOD": "POST", "CONTENT_LENGTH": "2"}
    for verb in (extender["filterVerb"], extender["bindVerb"]):
        call = {**environment, "PATH_INFO": f"/{verb}", "wsgi.input": BytesIO(b"{}")}
        assert list(answer(call, lambda status, _: calls.setdefault(status, 1))) == [b"{}"]
    assert list(calls) == ["filter", "200 OK"]
    options = get_command(k8s.app).commands["scheduler-extension"].params
    (port,) = (each.default for each in options if each.name == "port")
    assert extender["urlPrefix"] == f"http://{LOOPBACK}:{port}"


def test_numbers_of_the_page_are_legal():
    for instance in ("trn1.32xlarge", "trn1n.32xlarge", "trn2.48xlarge"):
        assert f"{instance}" in kubernetes_page.PAGE
        assert legal_counts(instance) == (1, 4, 8, 16)
    assert refusal("trn1.32xlarge", 7).reason in " ".join(kubernetes_page.PAGE.split())
