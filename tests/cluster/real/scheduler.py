"""The scheduler extension against a real kube-scheduler and API, with an oracle of its own.

Four nodes of each of four instance types, with the devices that a plugin would advertise, and no
kubelet. `make cluster` runs it; it also runs alone, as root:
python tests/cluster/real/scheduler.py [SEED]
"""

import os
import random
import sys
import time
from collections import defaultdict

import kubernetes_page
import namespaces
from daemons import ROOT, ControlPlane, Daemons, Failed, missing, wait_until
from placement_oracle import DEVICES_OF, INSTANCES, Oracle
from showing import Report, kept_logs

NEEDED = ("kube-apiserver", "kube-scheduler", "etcd", "openssl", "unshare", "ip")
NEURON, NEURONCORE = "aws.amazon.com/neuron", "aws.amazon.com/neuroncore"
TYPE = "node.kubernetes.io/instance-type"
PODS = "/api/v1/namespaces/default/pods"
NODES_A_TYPE, PODS_A_TYPE = 4, 40
KILLED = {0.25: "scheduler-extension", 0.5: "scheduler-extension", 0.75: "kube-apiserver"}
"""What is killed, by the share of all pods that have been placed by then."""
BACK_OFF_S = 1
MOST_WAIT_S = 30.0
"""Time in which a pod that could be placed must be: back-offs, on a busy machine. A pod that
kube-scheduler has lost sight of waits for 60 s and more."""
MOST_RUN_S = 300.0
TICK_S = 0.05


def main():
    told = missing(*NEEDED)
    if told or os.getuid() != 0:
        sys.exit("\n".join(["the scheduler part needs root, and:", *told]))
    namespaces.enter()
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else random.SystemRandom().randrange(10**6)
    with kept_logs("scheduler") as folder:
        run(folder, seed)
        left = namespaces.processes()
        if left:
            raise Failed(f"left: {left}")


def run(folder, seed):
    report, daemons = Report("scheduler"), Daemons(folder)
    report.show(f"seed {seed}")
    cluster = Cluster(daemons)
    try:
        report.show(f"API of {cluster.plane.start():.1f} s")
        cluster.add_nodes()
        start_extension(daemons, cluster.plane)
        start_scheduler(cluster.plane)
        refused(cluster, report)
        placed(cluster, report, random.Random(seed))  # noqa: S311  a sequence of tests
    finally:
        daemons.stop()


def start_extension(daemons, plane):
    """Start the extension, perhaps again, and wait until it listens."""

    def listening():
        path = daemons.logs / "scheduler-extension.log"
        return path.read_text().count("listening on ") if path.exists() else 0

    before = listening()
    words = kubernetes_page.command("k8s scheduler-extension", SERVER=plane.server)
    files = {"token": plane.token_file, "ca.crt": plane.ca_file}
    daemons.start(
        "scheduler-extension",
        *(sys.executable, "-P", "-m", "trnsim", *(files.get(word, word) for word in words)),
        env={"PYTHONPATH": str(ROOT / "src"), "TRNSIM_SITE": ""},
    )
    wait_until(lambda: listening() > before, "the extension listens")


def start_scheduler(plane):
    """kube-scheduler as docs/how-to-kubernetes.md configures it, in the version of 1.20."""
    plane.start_scheduler(
        {
            **kubernetes_page.manifest("KubeSchedulerConfiguration"),
            "apiVersion": "kubescheduler.config.k8s.io/v1beta1",
            "clientConnection": {"kubeconfig": str(plane.kubeconfig)},
            "leaderElection": {"leaderElect": False},
            "podInitialBackoffSeconds": BACK_OFF_S,
            "podMaxBackoffSeconds": BACK_OFF_S,
        }
    )


class Cluster:
    """A control plane, the extension, and what the API shows of pods."""

    def __init__(self, daemons):
        self.daemons, self.plane = daemons, ControlPlane(daemons)

    def add_nodes(self):
        for instance in INSTANCES:
            for number in range(NODES_A_TYPE):
                self._add_node(f"{instance.partition('.')[0]}-{number}", instance)

    def _add_node(self, name, instance):
        devices, per_device = DEVICES_OF[instance]
        counts = {NEURON: str(devices), NEURONCORE: str(devices * per_device)}
        capacity = {"cpu": "128", "memory": "512Gi", "pods": "250", **counts}
        body = {"kind": "Node", "metadata": {"name": name, "labels": {TYPE: instance}}}
        self.plane.request("POST", "/api/v1/nodes", body)
        ready = {"type": "Ready", "status": "True", "reason": "Emulated", "message": ""}
        status = {"capacity": capacity, "allocatable": capacity, "conditions": [ready]}
        kind = "application/merge-patch+json"
        path = f"/api/v1/nodes/{name}"
        self.plane.request("PATCH", f"{path}/status", {"status": status}, kind)
        self.plane.request("PATCH", path, {"spec": {"taints": None}}, kind)

    def create(self, name, instance, resource, count):
        counts = {resource: str(count)}
        container = {"name": "main", "image": "none", "resources": {"limits": counts}}
        body = {
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"containers": [container], "nodeSelector": {TYPE: instance}},
        }
        self.plane.request("POST", PODS, body)

    def delete(self, name):
        self.plane.request("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")

    def pods(self):
        return {pod["metadata"]["name"]: pod for pod in self.plane.request("GET", PODS)["items"]}


def refused(cluster, report):
    """Every number of devices that AWS does not allow is refused by name, on empty nodes."""
    wanted = {}
    for instance in INSTANCES:
        devices, _ = DEVICES_OF[instance]
        oracle = Oracle(instance)
        for count in range(1, devices + 2):
            if oracle.sets(NEURON, count):
                continue
            name = f"refused-{instance.partition('.')[0]}-{count}"
            cluster.create(name, instance, NEURON, count)
            wanted[name] = (
                f"Instance type {instance} does not support requests for device: {count}. "
                "Please request a different number of devices."
                if count <= devices
                else f"Insufficient {NEURON}"  # kube-scheduler's own words
            )

    def told():
        messages = {name: _message(pod) for name, pod in cluster.pods().items()}
        return all(wanted[name] in messages.get(name, "") for name in wanted)

    wait_until(told, "each illegal number is refused by name", 60)
    for name in wanted:
        cluster.delete(name)
    report.show(f"{len(wanted)} numbers of devices refused, each in the words that are expected")


def _message(pod):
    """Why a pod is not scheduled."""
    conditions = pod["status"].get("conditions") or []
    return " ".join(each.get("message", "") for each in conditions if each["status"] == "False")


class Workload:
    """The pods of one instance type: those to come, those that wait, those that were placed."""

    def __init__(self, instance, chance):
        self.instance, self.oracle = instance, Oracle(instance)
        devices, per_device = DEVICES_OF[instance]
        legal = [count for count in range(1, devices + 1) if self.oracle.sets(NEURON, count)]
        few = [count for count in legal if count <= devices // 2]
        cores = [
            each for each in range(1, devices * per_device) if self.oracle.sets(NEURONCORE, each)
        ]
        demands = [(NEURON, count) for count in legal]
        demands += [(NEURONCORE, chance.choice(cores)) for _ in range(8)]
        demands += [(NEURON, chance.choice(few)) for _ in range(PODS_A_TYPE - len(demands))]
        chance.shuffle(demands)
        family = instance.partition(".")[0]
        self.to_come = {f"{family}-{at}": demand for at, demand in enumerate(demands)}
        self.demands = dict(self.to_come)
        self.placed = set()
        self.could_since_s = {}
        self.longest_s = 0.0

    def check(self, pods, now_s):
        """Check what the API shows; the pods that are bound now.

        Fails where a set is illegal, two overlap, or a pod has waited too long beside a free set.
        """
        own = {name: pods[name] for name in self.demands if name in pods}
        bound = {name: pod for name, pod in own.items() if pod["spec"].get("nodeName")}
        free = defaultdict(self.oracle.all_cores)
        for name, pod in bound.items():
            free[pod["spec"]["nodeName"]] -= self.oracle.checked(
                name, pod, *self.demands[name], free[pod["spec"]["nodeName"]]
            )
        self.placed |= bound.keys()
        family = self.instance.partition(".")[0]
        nodes = [free[f"{family}-{number}"] for number in range(NODES_A_TYPE)]
        for name in own.keys() - bound.keys():
            if not any(self.oracle.fits(*self.demands[name], each) for each in nodes):
                self.could_since_s.pop(name, None)
                continue
            waited_s = now_s - self.could_since_s.setdefault(name, now_s)
            self.longest_s = max(self.longest_s, waited_s)
            if waited_s > MOST_WAIT_S:
                raise Failed(
                    f"{name} {self.demands[name]} waits beside free {sorted(map(sorted, nodes))}"
                )
        for name in bound:
            self.could_since_s.pop(name, None)
        return bound


def placed(cluster, report, chance):
    """Pods come and go in random order until each has been placed; daemons are killed meanwhile."""
    workloads = [Workload(instance, chance) for instance in INSTANCES]
    total, kills, deleted = PODS_A_TYPE * len(INSTANCES), dict(KILLED), 0
    began_s = time.monotonic()
    while True:
        cluster.daemons.check()
        now_s, pods = time.monotonic(), cluster.pods()
        bound = {each: each.check(pods, now_s) for each in workloads}
        done = sum(len(each.placed) for each in workloads)
        if done == total:
            break
        if now_s - began_s > MOST_RUN_S:
            raise Failed(f"{done} of {total} pods placed in {MOST_RUN_S:g} s")
        if kills and done >= min(kills) * total:
            name = kills.pop(min(kills))
            killed(cluster, name, chance)
            for each in workloads:
                each.could_since_s.clear()  # nothing is placed while it is down
            report.show(f"{name} killed -9 with {done} of {total} pods placed, and started again")
            continue
        for each in workloads:
            deleted += step(cluster, each, bound[each], chance)
        time.sleep(TICK_S)
    report.show(f"{total} pods placed, {deleted} deleted meanwhile, none overlaps, all sets legal")
    for each in workloads:
        report.show(
            f"{each.instance}: {len(each.demands)} pods; the longest wait beside a free set "
            f"{each.longest_s:.1f} s"
        )


def step(cluster, workload, bound, chance):
    """Create or delete a pod, or neither; the number of deletions."""
    if workload.to_come and chance.random() < 0.4:
        name = chance.choice(sorted(workload.to_come))
        cluster.create(name, workload.instance, *workload.to_come.pop(name))
    is_full = len(workload.demands) - len(workload.placed) > 0
    if bound and is_full and chance.random() < 0.25:
        cluster.delete(chance.choice(sorted(bound)))
        return 1
    return 0


def killed(cluster, name, chance):
    """Kill a daemon while pods are being bound, and start it again a moment later."""
    cluster.daemons.kill(name)
    time.sleep(chance.random())
    if name == "kube-apiserver":
        cluster.plane.start_api()
    else:
        start_extension(cluster.daemons, cluster.plane)


if __name__ == "__main__":
    main()
