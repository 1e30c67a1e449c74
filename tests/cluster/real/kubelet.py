"""The device plugin and the node's problems against a real kubelet, containerd and runc.

A node with the devices of inf2.48xlarge, in namespaces of its own. `make cluster` runs it; it also
runs alone, as root: python tests/cluster/real/kubelet.py
"""

import json
import os
import re
import sys
import time
import urllib.request
from itertools import chain
from pathlib import Path

import kubernetes_page
import namespaces
from daemons import ROOT, Daemons, Failed, missing, unmount_below, wait_until
from node import IMAGE, NODE, Node
from showing import Report, kept_logs

INSTANCE, DEVICES, CORES = "inf2.48xlarge", 12, 24
NEURON, NEURONCORE = "aws.amazon.com/neuron", "aws.amazon.com/neuroncore"
NEEDED = ("kube-apiserver", "kubelet", "etcd", "containerd", "ctr", "runc", "busybox", "openssl")
COVERED = ("/var/lib/kubelet", "/run/containerd", "/var/log/pods", "/var/log/containers")
GROUP = "k8s.io"
"""The control group of containerd's containers."""
SHELL = "TRNSIM_CLUSTER_SHELL"
SOON_S = 5.0
PROGRAM = """
import time, torch
count = torch.neuron.device_count()
sums = [float((torch.ones(4, device=f"neuron:{n}") * n).sum().cpu()) for n in range(count)]
print(count, sums, flush=True)
open("/out/{name}.ran", "w").write(f"{count} {sums}")
while True:
    time.sleep(0.2)
    try:
        torch.ones(4, device="neuron:2").sum().cpu()
    except RuntimeError as error:
        open("/out/{name}.fault", "w").write(str(error))
        raise
"""


def main():
    told = missing(*NEEDED)
    if told or os.getuid() != 0:
        sys.exit("\n".join(["the kubelet part needs root, and:", *told]))
    namespaces.enter()
    if SHELL not in os.environ:
        environment = {**os.environ, SHELL: "1", "PYTHONPATH": str(ROOT / "src")}
        command = ("-P", "-m", "trnsim", "shell", "--on", INSTANCE, "--", sys.executable, *sys.argv)
        os.execve(sys.executable, [sys.executable, *command], environment)  # noqa: S606  this again
    made = namespaces.cover(*COVERED)
    try:
        with kept_logs("kubelet") as folder:
            run(folder)
            check_rest(folder)
    finally:
        namespaces.remove(made)


def run(folder):
    report, daemons = Report("kubelet"), Daemons(folder)
    node = Node(daemons)
    try:
        report.show(f"API of {node.plane.start():.1f} s")
        node.start_containerd()
        node.start_kubelet()
        node.start_plugin()
        registered(node, report)
        two_devices(node, report)
        a_program(node, report)
        labels(node, report)
        killed(node, report)
        reserved(node, report)
        faults(node, report)
        node.delete_pods()
    finally:
        daemons.stop()
        unmount_below(folder)


def registered(node, report):
    _, took_s = wait_until(
        lambda: (node.allocatable(NEURON), node.allocatable(NEURONCORE)) == (DEVICES, CORES),
        "kubelet counts the devices and cores",
        60,
    )
    report.show(f"kubelet counts {DEVICES} neuron and {CORES} neuroncore ({took_s:.1f} s)")


def two_devices(node, report):
    """The pod of the page prints what the page shows."""
    pod, expected = kubernetes_page.pod()
    name = pod["metadata"]["name"]
    pod["spec"] |= {"nodeName": NODE, "hostNetwork": True, "terminationGracePeriodSeconds": 0}
    pod["spec"]["containers"][0] |= {"image": IMAGE, "imagePullPolicy": "Never"}
    node.plane.request("POST", "/api/v1/namespaces/default/pods", pod)
    node.wait_running(name)
    uid = node.pod(name)["metadata"]["uid"]
    log = Path(f"/var/log/pods/default_{name}_{uid}/main/0.log")

    def printed():
        # The runtime puts time, stream and a mark before each line.
        lines = log.read_text().splitlines() if log.exists() else []
        return "".join(f"{line.split(' ', 3)[3]}\n" for line in lines)

    wait_until(lambda: printed() == expected, f"the pod prints what the page shows: {printed()}")
    report.show(f"a pod with 2 devices sees {', '.join(expected.split())}")


def a_program(node, report):
    """`trnsim run` in a pod uses the cores of the pod."""
    (node.out / "program.py").write_text(PROGRAM.replace("{name}", "program"))
    home = Path(os.path.realpath(sys.executable)).parents[1]
    environment = Path(sys.executable).parents[1].resolve()
    folders = {"usr": Path("/usr"), "home": home, "environment": environment, "source": ROOT}
    mounts = [(name, path, path) for name, path in folders.items()]
    python = (
        f"PYTHONPATH={ROOT}/src TRNSIM_CACHE=off TRNSIM_SITE= HOME=/out {environment}/bin/python"
    )
    script = f"cd /out && {python} -P -m trnsim run /out/program.py > /out/program.log 2>&1"
    command = ["/bin/sh", "-c", script]
    node.create("program", NEURON, 3, command, mounts)
    node.wait_running("program")
    ran = node.out / "program.ran"

    def has_run():
        if node.pod("program")["status"]["phase"] == "Failed":
            raise Failed(f"the program: {(node.out / 'program.log').read_text()[-2000:]}")
        return ran.exists()

    _, took_s = wait_until(has_run, "the program in the pod runs", 120)
    (record,) = (node.state / "containers" / "neuron-2").glob("*.json")
    cores = json.loads(record.read_text())["cores"]
    expected = "6 [0.0, 4.0, 8.0, 12.0, 16.0, 20.0]"
    if cores != [4, 5, 6, 7, 8, 9] or ran.read_text() != expected:
        raise Failed(f"the program used cores {cores}, {ran.read_text()}")
    report.show(f"`trnsim run` in a pod with 3 devices used cores {cores} ({took_s:.1f} s)")


def labels(node, report):
    """The series of a core that a pod's program uses have the pod's labels."""
    for name in ("neuron-monitor-k8s-info", "neuron-monitor-prometheus"):
        node.start_command(name, *kubernetes_page.command(name))
    pattern = re.compile(
        r'neuroncore_utilization_ratio{(?=.*neuroncore="4")(?=.*pod="program")'
        r'(?=.*namespace="default")(?=.*container="main").*} \S+'
    )
    (line,), took_s = wait_until(lambda: pattern.findall(scraped()), "a core has its pod's labels")
    shown = ", ".join(re.findall(r'(?:neuroncore|pod|namespace|container)="[^"]*"', line))
    report.show(f"neuron-monitor-prometheus.py --enable-k8s-info: {shown} ({took_s:.1f} s)")
    node.daemons.stop("neuron-monitor-prometheus", "neuron-monitor-k8s-info")


def scraped():
    try:
        with urllib.request.urlopen("http://127.0.0.1:8000/metrics", timeout=5) as answer:
            return answer.read().decode()
    except OSError:
        return ""


def held():
    """What each pod holds, by kubelet's checkpoint."""
    stored = json.loads(
        Path("/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint").read_text()
    )
    return sorted(
        (entry["PodUID"], entry["ResourceName"], sorted(chain(*entry["DeviceIDs"].values())))
        for entry in stored["Data"]["PodDeviceEntries"]
    )


def killed(node, report):
    """The plugin and kubelet are killed; what pods hold stays, and new pods get other devices."""
    before, tasks = held(), node.tasks()
    for name, start in (("device-plugin", node.start_plugin), ("kubelet", node.start_kubelet)):
        registered_before = node.daemons.log("device-plugin").count("registered")
        node.daemons.kill(name)
        start()
        wait_until(
            lambda count=registered_before: (
                node.daemons.log("device-plugin").count("registered") > count
                and node.allocatable(NEURON) == DEVICES
            ),
            f"registered after {name} was killed",
            60,
        )
        report.show(f"{name} killed -9 and started again: registered")
    node.create("third", NEURONCORE, 1, ["sh", "-c", "env > /out/third.env; sleep 100000"])
    node.wait_running("third")
    wait_until(lambda: "VISIBLE" in written(node, "third"), "the pod writes")
    after = [each for each in held() if each in before]
    if after != before or not tasks <= node.tasks():
        raise Failed(f"held before {before}, after {held()}")
    if "NEURON_RT_VISIBLE_CORES=10\n" not in (node.out / "third.env").read_text():
        raise Failed(f"a new pod got {(node.out / 'third.env').read_text()}")
    report.show(f"what {len(before)} pods held they hold; a new pod with a core got core 10")


def reserved(node, report):
    """A pod gets the set that a scheduler extension wrote on it, and hardware is lent once."""
    script = "env > /out/{0}.env; sleep 100000"
    sets = {"trnsim/neuron-sets": "main=16,17,18,19"}
    node.create("reserved", NEURON, 2, ["sh", "-c", script.format("reserved")], (), sets)
    node.wait_running("reserved")
    wait_until(lambda: "CORES=16-19\n" in written(node, "reserved"), "the pod has its set", 10)
    report.show("a pod with cores 16 to 19 in its annotation got devices 8 and 9")
    # Core 10 is held, and with it device 5: 6, 7, 10 and 11 are free beside it.
    node.create("many", NEURON, 5, ["sh", "-c", script.format("many")])
    message = wait_until(
        lambda: node.pod("many")["status"].get("message", ""), "a pod of 5 devices is refused", 20
    )[0]
    if "default/third holds as aws.amazon.com/neuroncore 10" not in message:
        raise Failed(message)
    report.show("a pod that would get device 5, whose core 10 is held, failed and names the holder")


def written(node, name):
    path = node.out / f"{name}.env"
    return path.read_text() if path.exists() else ""


def faults(node, report):
    """A fault takes the device, sets the condition, and is an event of the pod."""
    words = kubernetes_page.command("k8s node-problems", SERVER=node.plane.server, NODE_NAME=NODE)
    files = {"token": node.plane.token_file, "ca.crt": node.plane.ca_file}
    words = [str(files.get(word, word)) for word in words]
    node.start_command("node-problems", *words, "--kmsg", "/dev/kmsg")
    wait_until(lambda: health(node) == "False", "the node is well")
    line = node.trnsim("fault", "hbm-ecc", "--device", "3", "--core", "0")
    injected_at = float(line.split()[0])
    for what, is_so, text in (
        ("allocatable", lambda: node.allocatable(NEURON) == DEVICES - 1, "11 of 12 allocatable"),
        ("condition", lambda: health(node) == "True", "NodeCondition NeuronHealth True"),
        ("event", lambda: node.events("Pod", "program"), "an event of the pod"),
        ("program", (node.out / "program.fault").exists, "the program in the pod meets the error"),
    ):
        wait_until(is_so, f"a fault: {what}", 20)
        took_s = time.time() - injected_at
        if took_s > SOON_S and what != "program":
            raise Failed(f"{what} took {took_s:.1f} s; legal: {SOON_S:g}")
        report.show(f"a fault of device 3: {text} after {took_s:.1f} s")
    if node.allocatable(NEURONCORE) != CORES - 1:
        raise Failed(f"a fault of a core left {node.allocatable(NEURONCORE)} cores")
    if "NRT_EXEC_HW_ERR_HBM_UE" not in (node.out / "program.fault").read_text():
        raise Failed((node.out / "program.fault").read_text())
    check_kernel_log(report)
    node.trnsim("fault", "clear")
    wait_until(lambda: node.allocatable(NEURON) == DEVICES, "all devices are healthy", 20)
    node.trnsim("fault", "reset")
    wait_until(lambda: health(node) == "False", "the node is well again", 20)
    report.show("trnsim fault clear: 12 of 12 allocatable; reset: NeuronHealth False")


def health(node):
    conditions = {each["type"]: each["status"] for each in node.status()["conditions"]}
    return conditions.get("NeuronHealth")


def check_kernel_log(report):
    """The kernel's log has the line that AWS's pattern matches."""
    descriptor = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    lines = []
    try:
        while True:
            lines.append(os.read(descriptor, 8192).decode(errors="replace"))
    except BlockingIOError:
        pass
    finally:
        os.close(descriptor)
    if not any(re.match(".* NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR .*", line) for line in lines):
        raise Failed("the kernel's log has no line of the fault")
    report.show("/dev/kmsg has the line that AWS's problem detector looks for")


def check_rest(folder):
    """Fail where a process, a mount or a control group of this part is left."""
    time.sleep(1)
    left = {
        pid: command for pid, command in namespaces.processes().items() if "keeper" not in command
    }
    groups = namespaces.remove_groups(GROUP)
    mounts = [line for line in Path("/proc/mounts").read_text().splitlines() if str(folder) in line]
    if left or groups or mounts:
        raise Failed(f"left: processes {left}, control groups {groups}, mounts {mounts}")


if __name__ == "__main__":
    main()
