"""A real Slurm of two nodes: slurmctld, two slurmd in emulated instances, and munge.

Each host has a network namespace on a bridge, a host name, and its own /etc/hosts; a node's slurmd
is the program of `trnsim shell`, so that its jobs are inside an instance. All of it ends by pid.
"""

import os
import secrets
import subprocess
import sys
import time

from daemons import ROOT, wait_until

INSTANCE = "trn2.48xlarge"
HOSTS = {"control": 1, "n1": 11, "n2": 12}
"""Hosts, with the last number of their addresses."""
NODES = ("n1", "n2")
NETWORK = "10.77.0"
PYTHON = (sys.executable, "-P", "-m", "trnsim")
SLURM_CONF = """ClusterName=emulated
SlurmctldHost=control
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/logs/slurmctld-own.log
SlurmdLogFile={folder}/logs/slurmd-%n-own.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=10
KillWait=5
MpiDefault=none
MailProg=/bin/true
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/completed
Include {folder}/slurm-neuron.conf
PartitionName=trn2 Nodes=n[1-2] Default=YES MaxTime=INFINITE State=UP
"""


class SlurmCluster:
    """Slurm over two emulated nodes.

    Attributes:
        folder: its files; jobs are submitted in `shared`, which all hosts have.
    """

    def __init__(self, daemons):
        self.daemons, self.folder = daemons, daemons.folder
        self.shared = self.folder / "shared"
        self.environment = {
            "SLURM_CONF": str(self.folder / "slurm.conf"),
            "PYTHONPATH": str(ROOT / "src"),
            "TRNSIM_STATE": str(self.folder / "instance-state"),
            "TRNSIM_SITE": "",
            "HOME": str(self.shared),
            "TMPDIR": str(self.folder / "tmp"),
            "PYTHONDONTWRITEBYTECODE": "",  # dozens of interpreters would compile the source anew
        }
        self._pids = {}

    def start(self):
        """Start all daemons; seconds until both nodes are idle."""
        began_s = time.monotonic()
        for name in ("shared", "state", "munge", "tmp", *(f"spool-{node}" for node in NODES)):
            (self.folder / name).mkdir(mode=0o755)
        self._write_files()
        self._add_network()
        self._start_munge()
        self.start_on("control", "slurmctld", "slurmctld", "-D")
        for node in NODES:
            self.start_node(node)
        wait_until(lambda: self.states() == {"n1": "idle", "n2": "idle"}, "idle nodes", 60)
        return time.monotonic() - began_s

    def _write_files(self):
        subprocess.run(
            [
                *(*PYTHON, "slurm", "gres", "--on", INSTANCE, "--node-names", "n[1-2]"),
                *("--folder", str(self.folder)),
            ],
            check=True, env={**os.environ, **self.environment}, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        lines = "".join(f"{NETWORK}.{number} {host}\n" for host, number in HOSTS.items())
        files = {
            "hosts": f"127.0.0.1 localhost\n{lines}",
            "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
            "slurm.conf": SLURM_CONF.format(folder=self.folder),
            "cgroup.conf": "CgroupPlugin=cgroup/v1\n",
        }
        for name, text in files.items():
            (self.folder / name).write_text(text)

    def _add_network(self):
        run("ip", "link", "add", "cluster", "type", "bridge")
        run("ip", "link", "set", "cluster", "up")
        for host, number in HOSTS.items():
            setup = (
                f"hostname {host} && mount --bind {self.folder}/hosts /etc/hosts && "
                f"mount --bind {self.folder}/nsswitch.conf /etc/nsswitch.conf && "
                f"touch {self.folder}/up-{host} && exec sleep infinity"
            )
            own = ("--net", "--uts", "--mount", "--propagation", "private")
            process = self.daemons.start(f"host-{host}", "unshare", *own, "sh", "-c", setup)
            wait_until((self.folder / f"up-{host}").exists, f"the host {host}")
            pid = str(process.pid)
            run("ip", "link", "add", f"to-{host}", "type", "veth", "peer", "name", "eth0",
                "netns", pid)  # fmt: skip
            run("ip", "link", "set", f"to-{host}", "master", "cluster", "up")
            inside = ("nsenter", "--target", pid, "--net", "ip")
            run(*inside, "link", "set", "lo", "up")
            run(*inside, "link", "set", "eth0", "up")
            run(*inside, "address", "add", f"{NETWORK}.{number}/24", "dev", "eth0")
            self._pids[host] = pid

    def _start_munge(self):
        key = self.folder / "munge" / "key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        names = {"key-file": "key", "socket": "socket", "pid-file": "pid", "seed-file": "seed"}
        options = [f"--{option}={self.folder}/munge/{name}" for option, name in names.items()]
        log = f"--log-file={self.folder}/logs/munged-own.log"
        self.daemons.start("munged", "munged", "--foreground", "--force", *options, log)
        wait_until((self.folder / "munge" / "socket").exists, "munge")

    def start_node(self, node):
        """Start the slurmd of a node as the program of an emulated instance."""
        command = ("shell", "--on", INSTANCE, "--", "slurmd", "-D", "-N", node)
        self.start_on(node, f"slurmd-{node}", *PYTHON, *command)

    def start_on(self, host, name, *command):
        self.daemons.start(name, *self._on(host, command), env=self.environment)

    def _on(self, host, command):
        into = ("nsenter", "--target", self._pids[host], "--net", "--uts", "--mount")
        return [*into, f"--wd={self.shared}", "--", *command]

    def ask(self, *command, within_s=60, check=True):
        """What a command of Slurm's prints on the control host."""
        done = subprocess.run(
            self._on("control", command), env={**os.environ, **self.environment}, text=True,
            check=False, capture_output=True, timeout=within_s, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if check and done.returncode:
            raise subprocess.SubprocessError(f"{command}: {done.stdout}{done.stderr}")
        return done.stdout

    def states(self):
        """State of each node."""
        lines = self.ask("sinfo", "-h", "-N", "-o", "%N %T", check=False).splitlines()
        return dict(line.split() for line in lines)

    def submit(self, name, script, *options):
        """Submit a job; its number."""
        path = self.shared / f"{name}.sh"
        path.write_text("#!/bin/sh\n" + script)
        return self.ask("sbatch", "--parsable", "-o", f"{name}.out", *options, str(path)).strip()

    def output(self, name):
        """Output of a job so far."""
        path = self.shared / f"{name}.out"
        return path.read_text(errors="replace") if path.exists() else ""

    def record(self, job):
        """The fields of `scontrol show job --details`."""
        text = self.ask("scontrol", "show", "job", "--details", job)
        return dict(pair.split("=", 1) for pair in text.split() if "=" in pair)

    def wait(self, *jobs, within_s=180):
        """The records of jobs once they have ended, and the seconds until then."""
        ended = ("COMPLETED", "FAILED", "NODE_FAIL", "CANCELLED", "TIMEOUT")

        def all_ended():
            self.daemons.check()
            records = [self.record(job) for job in jobs]
            is_over = all(record["JobState"] in ended for record in records)
            return records if is_over else None

        return wait_until(all_ended, f"jobs {', '.join(jobs)} end", within_s, 0.5)


def run(*command):
    subprocess.run(command, check=True, capture_output=True)
