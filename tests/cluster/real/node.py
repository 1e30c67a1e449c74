"""A node of a real cluster: containerd, kubelet, and the device plugin under test."""

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile

import kubernetes_page
from daemons import BINARIES, ROOT, ControlPlane, Failed, wait_until
from namespaces import ADDRESS

NODE, IMAGE = "node-a", "localhost/busybox:1"


class Node:
    """A node: containerd, kubelet and the device plugin, over a control plane."""

    def __init__(self, daemons):
        self.daemons, self.folder = daemons, daemons.folder
        self.plane = ControlPlane(daemons)
        self.out, self.state = self.folder / "out", self.folder / "state"
        self.out.mkdir()
        self.socket = self.folder / "containerd.sock"
        self.environment = {
            "TRNSIM_STATE": str(self.state),
            "TRNSIM_SITE": "",
            "PYTHONPATH": str(ROOT / "src"),
        }

    def start_containerd(self):
        """Start containerd with an image of busybox."""
        config = self.folder / "containerd.toml"
        config.write_text(
            f"""version = 2
root = "{self.folder}/containerd"
state = "{self.folder}/containerd-state"
[grpc]
address = "{self.socket}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{IMAGE}"
disable_apparmor = true
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "native"
"""
        )
        self.daemons.start("containerd", "containerd", "--config", config)
        wait_until(lambda: self.ctr("version", check=False).returncode == 0, "containerd", 30)
        image = self.folder / "image.tar"
        write_image(image)
        self.ctr("images", "import", "--snapshotter", "native", image)

    def ctr(self, *words, check=True):
        command = ["ctr", "--address", self.socket, "--namespace", "k8s.io", *words]
        return subprocess.run(
            [str(word) for word in command], check=check, capture_output=True, text=True
        )

    def start_kubelet(self):
        """Start kubelet, perhaps again."""
        config = self.folder / "kubelet.json"
        config.write_text(
            json.dumps(
                {
                    "apiVersion": "kubelet.config.k8s.io/v1beta1",
                    "kind": "KubeletConfiguration",
                    "address": "127.0.0.1",
                    "authentication": {"anonymous": {"enabled": False}},
                    "cgroupDriver": "cgroupfs",
                    "cgroupsPerQOS": False,
                    "enforceNodeAllocatable": [],
                    "evictionHard": {"nodefs.available": "0%", "imagefs.available": "0%"},
                    "failSwapOn": False,
                    "imageGCHighThresholdPercent": 100,
                    "nodeStatusUpdateFrequency": "1s",
                    "readOnlyPort": 0,
                }
            )
        )
        self.daemons.start(
            "kubelet",
            *(BINARIES / "kubelet", f"--config={config}", f"--kubeconfig={self.plane.kubeconfig}"),
            *("--container-runtime=remote", f"--container-runtime-endpoint=unix://{self.socket}"),
            *(f"--hostname-override={NODE}", f"--pod-infra-container-image={IMAGE}", "--v=3"),
            f"--cert-dir={self.folder}/pki",
            f"--node-ip={ADDRESS}",  # else it looks its name up, for 10 s without a server of names
            env={"AWS_EC2_METADATA_DISABLED": "true"},  # it looks for an instance at EC2 for 6 s
        )

    def start_plugin(self):
        """Start the device plugin, perhaps again; it reads what is written on pods."""
        self.start_command(
            "device-plugin",
            *kubernetes_page.command("k8s device-plugin"),
            *("--node", NODE, "--server", self.plane.server),
            *("--token-file", str(self.plane.token_file), "--ca-file", str(self.plane.ca_file)),
        )

    def start_command(self, name, *words):
        self.daemons.start(name, sys.executable, "-P", "-m", "trnsim", *words, env=self.environment)

    def trnsim(self, *words):
        """What a command of trnsim prints."""
        command = [sys.executable, "-P", "-m", "trnsim", *words]
        environment = {**os.environ, **self.environment}
        return subprocess.run(
            command, env=environment, check=True, capture_output=True, text=True
        ).stdout

    def status(self):
        found = self.plane.find(f"/api/v1/nodes/{NODE}")
        return found["status"] if found else {}

    def allocatable(self, resource):
        return int(self.status().get("allocatable", {}).get(resource, -1))

    def create(self, name, resource, count, command, mounts=(), annotations=None):
        """Create a pod that asks for devices, on this node."""
        volumes = [("out", self.out, "/out"), *mounts]
        container = {
            "name": "main",
            "image": IMAGE,
            "imagePullPolicy": "Never",
            "command": command,
            "resources": {"limits": {resource: str(count)}},
            "volumeMounts": [{"name": each[0], "mountPath": str(each[2])} for each in volumes],
        }
        specification = {
            "nodeName": NODE,
            "hostNetwork": True,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            "volumes": [{"name": each[0], "hostPath": {"path": str(each[1])}} for each in volumes],
        }
        metadata = {"name": name, "annotations": annotations or {}}
        pod = {"metadata": metadata, "spec": specification}
        self.plane.request("POST", "/api/v1/namespaces/default/pods", pod)

    def pod(self, name):
        return self.plane.find(f"/api/v1/namespaces/default/pods/{name}")

    def wait_running(self, name, within_s=60):
        """The pod once it runs."""

        def running():
            pod = self.pod(name)
            phase = pod["status"]["phase"]
            if phase == "Failed":
                raise Failed(f"pod {name}: {pod['status']}")
            return pod if phase == "Running" else None

        return wait_until(running, f"pod {name} runs", within_s)

    def delete_pods(self):
        for pod in self.plane.request("GET", "/api/v1/namespaces/default/pods")["items"]:
            name = pod["metadata"]["name"]
            self.plane.request(
                "DELETE", f"/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=0"
            )
        wait_until(
            lambda: not self.tasks(),
            "containers of deleted pods end",
            60,
        )

    def tasks(self):
        """Numbers of the containers that run."""
        return set(self.ctr("tasks", "list", "--quiet").stdout.split())

    def events(self, kind, name):
        items = self.plane.request("GET", "/api/v1/namespaces/default/events")["items"]
        return [
            each
            for each in items
            if (each["involvedObject"].get("kind"), each["involvedObject"].get("name"))
            == (kind, name)
        ]


def write_image(path):
    """An image of one layer, as `docker save` writes it: a static busybox and its links."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as archive:
        archive.add("/bin/busybox", "bin/busybox")
        for name in ("sh", "cat", "ls", "grep", "sleep", "env", "tail"):
            add_link(archive, f"bin/{name}", "busybox")
        for name in ("lib", "lib64"):  # of a host's Python, where /usr is mounted
            add_link(archive, name, f"usr/{name}")
        add_link(archive, "pause", "bin/busybox")
    stored = layer.getvalue()
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Cmd": ["/bin/sleep", "1000000"], "Env": ["PATH=/bin:/usr/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(stored).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"]}]
    with tarfile.open(path, "w") as archive:
        for name, content in (
            ("layer.tar", stored),
            ("config.json", json.dumps(config).encode()),
            ("manifest.json", json.dumps(manifest).encode()),
        ):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


def add_link(archive, name, target):
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    archive.addfile(entry)
