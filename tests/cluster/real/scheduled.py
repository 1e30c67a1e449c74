"""kube-scheduler, the extension, the device plugin and kubelet together, on one node.

Pods get the devices that the extension wrote on them, in whatever order kubelet counts its own.
`make cluster` runs it; it also runs alone, as root: python tests/cluster/real/scheduled.py
"""

import json
import os
import sys
from pathlib import Path

import kubelet
import namespaces
from daemons import ROOT, Daemons, Failed, missing, unmount_below, wait_until
from kubelet import NEURON, NEURONCORE
from node import NODE, Node
from scheduler import PODS, TYPE, start_extension, start_scheduler
from showing import Report, kept_logs

INSTANCE, CORES_A_DEVICE = "inf2.48xlarge", 2
SHELL = "TRNSIM_CLUSTER_SHELL"
NEEDED = (*kubelet.NEEDED, "kube-scheduler")
CHECKPOINT = Path("/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint")


def main():
    told = missing(*NEEDED)
    if told or os.getuid() != 0:
        sys.exit("\n".join(["this part needs root, and:", *told]))
    namespaces.enter()
    if SHELL not in os.environ:
        environment = {**os.environ, SHELL: "1", "PYTHONPATH": str(ROOT / "src")}
        command = ("-P", "-m", "trnsim", "shell", "--on", INSTANCE, "--", sys.executable, *sys.argv)
        os.execve(sys.executable, [sys.executable, *command], environment)  # noqa: S606  this again
    made = namespaces.cover(*kubelet.COVERED)
    try:
        with kept_logs("scheduled") as folder:
            run(folder)
            kubelet.check_rest(folder)
    finally:
        namespaces.remove(made)


def run(folder):
    report, daemons = Report("scheduled"), Daemons(folder)
    node = Node(daemons)
    try:
        node.plane.start()
        node.start_containerd()
        node.start_kubelet()
        for name, *words in (("device-plugin",), ("node-problems",)):
            node.start_command(name, "k8s", name, *words, *reaching(node.plane))
        wait_until(
            lambda: node.allocatable(NEURON) == kubelet.DEVICES, "kubelet counts devices", 60
        )
        # No cloud labels the node here, and no controller takes its taint of a new node away.
        changed = {"metadata": {"labels": {TYPE: INSTANCE}}, "spec": {"taints": None}}
        kind = "application/merge-patch+json"
        node.plane.request("PATCH", f"/api/v1/nodes/{NODE}", changed, kind)
        start_extension(daemons, node.plane)
        start_scheduler(node.plane)
        in_gaps(node, report)
        killed(node, report)
        beside_a_fault(node, report)
        node.delete_pods()
    finally:
        daemons.stop()
        unmount_below(folder)


def reaching(plane):
    """Options with which a command reaches the API, and finds its node."""
    files = ("--token-file", plane.token_file, "--ca-file", plane.ca_file)
    return ("--server", plane.server, *files, "--node", NODE)


def in_gaps(node, report):
    """Pods in the gaps that others left get sets that follow each other, as they were promised."""
    for name, count in (("a", 3), ("b", 2), ("c", 3)):
        placed(node, name, NEURON, count)
    delete(node, "b")
    shown = [placed(node, "d", NEURON, 4), placed(node, "e", NEURON, 2)]
    if shown != ["16-23", "6-9"]:
        raise Failed(f"cores {shown}, where sets that leave the largest gap are 16-23 and 6-9")
    report.show("5 pods of 2 to 4 devices: each has the cores that its annotation promises")


def killed(node, report):
    """The extension and the plugin are killed; the next pods get what nobody holds."""
    node.daemons.kill("scheduler-extension")
    node.daemons.kill("device-plugin")
    node.start_command("device-plugin", "k8s", "device-plugin", *reaching(node.plane))
    start_extension(node.daemons, node.plane)
    wait_until(lambda: node.allocatable(NEURON) == kubelet.DEVICES, "registered again", 60)
    delete(node, "a")
    placed(node, "f", NEURONCORE, 3)
    placed(node, "g", NEURON, 1)
    report.show("extension and plugin killed -9: two more pods, none overlaps")


def beside_a_fault(node, report):
    """A pod does not get the device that is broken, the only one that is free beside others."""
    delete(node, "c")
    node.trnsim("fault", "hang", "--device", "6")
    broken = "trnsim/unhealthy-devices"

    def is_marked():
        metadata = node.plane.find(f"/api/v1/nodes/{NODE}")["metadata"]
        return metadata.get("annotations", {}).get(broken) == "6"

    wait_until(is_marked, "the node names its broken device")
    shown = [placed(node, "h", NEURON, 1), placed(node, "i", NEURON, 1)]
    if sorted(shown) != ["10-11", "14-15"]:
        raise Failed(f"beside broken device 6 pods got cores {shown}")
    report.show(f"device 6 breaks: the next pods get cores {' and '.join(shown)}")


def placed(node, name, resource, count):
    """Create a pod that the scheduler places; its cores as it sees them, which nobody else has."""
    script = f"env > /out/{name}.env.new; mv /out/{name}.env.new /out/{name}.env; sleep 100000"
    container = {
        "name": "main",
        "image": "localhost/busybox:1",
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", script],
        "resources": {"limits": {resource: str(count)}},
        "volumeMounts": [{"name": "out", "mountPath": "/out"}],
    }
    spec = {
        "hostNetwork": True,
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
        "volumes": [{"name": "out", "hostPath": {"path": str(node.out)}}],
    }
    (node.out / f"{name}.env").unlink(missing_ok=True)
    node.plane.request("POST", PODS, {"metadata": {"name": name}, "spec": spec})
    wait_until(lambda: node.pod(name)["spec"].get("nodeName"), f"pod {name} is bound", 60)
    node.wait_running(name)
    wait_until((node.out / f"{name}.env").exists, f"pod {name} writes")
    lines = (node.out / f"{name}.env").read_text().splitlines()
    variables = dict(line.split("=", 1) for line in lines)
    text = variables["NEURON_RT_VISIBLE_CORES"]
    first, _, last = text.partition("-")
    seen = list(range(int(first), int(last or first) + 1))
    promised = node.pod(name)["metadata"]["annotations"]["NEURON_CORES"]
    if ",".join(map(str, seen)) != promised:
        raise Failed(f"pod {name} was promised cores {promised} and sees {text}")
    check_apart(node)
    return text


def check_apart(node):
    """Fail where two pods hold one core, by their annotations or by kubelet's checkpoint."""
    pods = node.plane.request("GET", PODS)["items"]
    cores = [
        core for pod in pods for core in pod["metadata"]["annotations"]["NEURON_CORES"].split(",")
    ]
    stored = json.loads(CHECKPOINT.read_text())["Data"]["PodDeviceEntries"]
    living = {pod["metadata"]["uid"] for pod in pods}
    kept = []
    for entry in stored:
        if entry["PodUID"] in living:
            ids = [int(each) for group in entry["DeviceIDs"].values() for each in group]
            size = CORES_A_DEVICE if entry["ResourceName"] == NEURON else 1
            kept += [core for each in ids for core in range(each * size, (each + 1) * size)]
    if len(set(cores)) != len(cores) or len(set(kept)) != len(kept):
        raise Failed(f"cores held twice: {cores}, by kubelet {kept}")


def delete(node, name):
    """Delete a pod, and wait until its container has ended."""
    before = len(node.ctr("tasks", "list", "--quiet").stdout.split())
    node.plane.request("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")
    wait_until(
        lambda: len(node.ctr("tasks", "list", "--quiet").stdout.split()) < before - 1,
        f"pod {name} ends",
        60,
    )


if __name__ == "__main__":
    main()
