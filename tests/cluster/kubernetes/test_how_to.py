"""docs/how-to-kubernetes.md: its commands parse, and its pod asks for what the page says.

`make cluster` runs the page against a real kubelet.
"""

from importlib import import_module

import kubernetes_page
import pytest
from typer.main import get_command

from trnsim.cli import module_of
from trnsim.cluster.kubernetes.node_devices import NEURON, NodeDevices
from trnsim.cluster.kubernetes.pods import demands
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
        *("k8s", "k8s", "neuron-monitor-prometheus", "neuron-monitor-k8s-info"),
    ]
    assert kubernetes_page.PAGE.count("```") == 2 * 5


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
