"""Daemons of a real cluster: started in the foreground with a log each, and ended by their pids.

The control plane is Debian's etcd, and kube-apiserver and kube-scheduler of Debian's source package
(`build_kubernetes.py`). It listens on 127.0.0.1 alone, in a network namespace of its own.
"""

import json
import os
import shutil
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BINARIES = Path(os.environ.get("KUBERNETES_BIN", ROOT / "build" / "kubernetes" / "bin"))
TOKEN = "emulated"  # noqa: S105  of a cluster that only this machine can reach
STRATEGIC = "application/strategic-merge-patch+json"
END_S = 20.0


class Failed(Exception):
    """A part of the cluster does not do what it should; its text says which."""


def wait_until(condition, what, within_s=30.0, every_s=0.1):
    """The first true value of `condition()`, and the seconds until then."""
    began_s = time.monotonic()
    while True:
        value = condition()
        took_s = time.monotonic() - began_s
        if value:
            return value, took_s
        if took_s > within_s:
            raise Failed(f"{what}: not within {within_s:g} s")
        time.sleep(every_s)


class Daemons:
    """Processes by name, in the order of their start."""

    def __init__(self, folder):
        self.folder = folder
        self.logs = folder / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self.running = {}

    def start(self, name, *command, env=None):
        """Start a daemon; its log goes on where it was started before."""
        log = (self.logs / f"{name}.log").open("ab")
        self.running[name] = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
        log.close()
        return self.running[name]

    def log(self, name):
        """What a daemon has written."""
        return (self.logs / f"{name}.log").read_text(errors="replace")

    def check(self):
        """Fail where a daemon has ended by itself."""
        for name, process in self.running.items():
            if process.poll() is not None:
                last = self.log(name)[-600:]
                raise Failed(f"{name} has ended with {process.returncode}:\n{last}")

    def kill(self, name):
        """Kill a daemon as `kill -9` does."""
        process = self.running.pop(name)
        process.kill()
        process.wait()

    def stop(self, *names):
        """End daemons, all without names: the last started first."""
        for name in reversed(names or [*self.running]):
            process = self.running.pop(name)
            process.terminate()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()


class ControlPlane:
    """etcd and kube-apiserver on 127.0.0.1, and a client of the API that shares no code with ours.

    Attributes:
        server, token_file, ca_file: what opens the API.
        kubeconfig: the same as a file, for kubelet and kube-scheduler.
    """

    def __init__(self, daemons, port=6443, etcd_port=2379):
        self.daemons, self.port, self.etcd_port = daemons, port, etcd_port
        self.folder = daemons.folder / "control-plane"
        self.folder.mkdir(exist_ok=True)
        self.server = f"https://127.0.0.1:{port}"
        self.token_file, self.ca_file = self.folder / "token", self.folder / "server.crt"
        self.kubeconfig = self.folder / "kubeconfig"
        self._write_files()
        self._tls = ssl.create_default_context(cafile=str(self.ca_file))

    def _write_files(self):
        (self.folder / "tokens.csv").write_text(f'{TOKEN},admin,admin,"system:masters"\n')
        self.token_file.write_text(TOKEN)
        for name, subject in (("server", "/CN=127.0.0.1"), ("accounts", "/CN=accounts")):
            subprocess.run(
                [
                    *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
                    *("-subj", subject, "-addext", "subjectAltName=IP:127.0.0.1"),
                    *("-keyout", f"{self.folder}/{name}.key", "-out", f"{self.folder}/{name}.crt"),
                ],
                check=True,
                capture_output=True,
            )
        cluster = {"server": self.server, "certificate-authority": str(self.ca_file)}
        self.kubeconfig.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "c", "cluster": cluster}],
                    "users": [{"name": "u", "user": {"token": TOKEN}}],
                    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                    "current-context": "x",
                }
            )
        )

    def start(self):
        """Start etcd and the API, and wait until it answers; seconds until then."""
        began_s = time.monotonic()
        etcd = f"http://127.0.0.1:{self.etcd_port}"
        self.daemons.start(
            "etcd",
            *("etcd", f"--data-dir={self.folder}/etcd", "--unsafe-no-fsync"),
            *(f"--listen-client-urls={etcd}", f"--advertise-client-urls={etcd}"),
            f"--listen-peer-urls=http://127.0.0.1:{self.etcd_port + 1}",
        )
        self.start_api()
        return time.monotonic() - began_s

    def start_api(self):
        """Start the API, perhaps again, and wait until it answers."""
        self.daemons.start(
            "kube-apiserver",
            BINARIES / "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self.etcd_port}",
            f"--secure-port={self.port}",
            *("--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"),
            f"--tls-cert-file={self.ca_file}",
            f"--tls-private-key-file={self.folder}/server.key",
            f"--token-auth-file={self.folder}/tokens.csv",
            "--anonymous-auth=false",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://127.0.0.1",
            f"--service-account-key-file={self.folder}/accounts.crt",
            f"--service-account-signing-key-file={self.folder}/accounts.key",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--disable-admission-plugins=ServiceAccount",
        )
        wait_until(self._is_ready, "the API is ready", 60)
        wait_until(lambda: self.find("/api/v1/namespaces/default"), "a namespace")

    def _is_ready(self):
        self.daemons.check()
        try:
            return self._answer("GET", "/readyz") == b"ok"
        except OSError:
            return False

    def start_scheduler(self, config):
        """Start kube-scheduler with the configuration `config` (KubeSchedulerConfiguration)."""
        path = self.folder / "scheduler.json"
        path.write_text(json.dumps(config))
        self.daemons.start(
            "kube-scheduler",
            *(BINARIES / "kube-scheduler", f"--config={path}", "--bind-address=127.0.0.1"),
            f"--authentication-kubeconfig={self.kubeconfig}",
            f"--authorization-kubeconfig={self.kubeconfig}",
        )

    def request(self, method, path, body=None, kind="application/json"):
        """The object that the API answers with."""
        return json.loads(self._answer(method, path, body, kind))

    def find(self, path):
        """The object at `path`, or None."""
        try:
            return self.request("GET", path)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise

    def _answer(self, method, path, body=None, kind="application/json"):
        request = urllib.request.Request(  # noqa: S310  of this machine's own server
            f"{self.server}{path}",
            None if body is None else json.dumps(body).encode(),
            {"Authorization": f"Bearer {TOKEN}", "Content-Type": kind},
            method=method,
        )
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self._tls)
        )
        with opener.open(request, timeout=10) as answer:
            return answer.read()


def missing(*names):
    """Programs that a run needs and this machine lacks, with where each comes from."""
    told = []
    for name in names:
        if name.startswith("kube"):
            if not (BINARIES / name).exists():
                told.append(f"{name}: python tests/cluster/real/build_kubernetes.py")
        elif shutil.which(name) is None:
            told.append(f"{name}: apt-get install {PACKAGES[name]}")
    return told


PACKAGES = {
    "etcd": "etcd-server",
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "busybox": "busybox-static",
    "openssl": "openssl",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "ip": "iproute2",
    "slurmctld": "slurm-wlm",
    "munged": "munge",
}


def unmount_below(folder):
    """Detach what is mounted below a folder, the deepest first."""
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for path in sorted((path for path in mounts if path.startswith(f"{folder}/")), reverse=True):
        with suppress(subprocess.CalledProcessError):
            subprocess.run(["umount", "-l", path], check=True, capture_output=True)
