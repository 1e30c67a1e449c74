"""The real clusters of `make cluster`, one part after the other, and a table of what they showed.

Each part is a script that also runs alone, in namespaces of its own. The first line that a part
fails with stands in the table, and the logs of all its daemons in build/cluster/PART.

usage: clusters.py [PART...]
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import namespaces
from daemons import ROOT

HERE = Path(__file__).parent
PARTS = {
    "kubelet": "the device plugin, a node's problems and pods' labels on a real kubelet",
    "scheduler": "the scheduler extension under a real kube-scheduler",
    "scheduled": "both together: pods see the devices that the extension chose",
    "slurm": "a job of two nodes under a real Slurm",
}
LIMIT_S = 600
GROUPS = ("k8s.io", "slurm")


def main():
    names = sys.argv[1:] or [name for name in PARTS if (HERE / f"{name}.py").exists()]
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        sys.exit(f"no part {', '.join(unknown)}; legal: {', '.join(PARTS)}")
    if sys.platform != "linux" or os.getuid() != 0:
        sys.exit("make cluster needs root on Debian: namespaces, control groups and daemons")
    before = mounts()
    rows = [(name, *run(name)) for name in names]
    left = [f"mount {path}" for path in sorted(mounts() - before)]
    left += [f"control group {path}" for name in GROUPS for path in namespaces.remove_groups(name)]
    print("\npart        result   time   what")
    for name, status, took_s in rows:
        result = "passed" if status == 0 else "FAILED"
        print(f"{name:<10}  {result}  {took_s:4.0f} s   {PARTS[name]}")
    print(
        "\n".join(["left on this machine:", *left]) if left else "nothing is left on this machine"
    )
    sys.exit(1 if left or any(status for _, status, _ in rows) else 0)


def run(name):
    """Exit status of a part, and the seconds that it took."""
    began_s = time.monotonic()
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen([sys.executable, HERE / f"{name}.py"], env=environment)
    try:
        status = process.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        print(f"{name}: not within {LIMIT_S} s")
        process.terminate()  # its namespaces end with it, and all that runs in them
        status = process.wait() or 1
    return status, time.monotonic() - began_s


def mounts():
    """Places where something is mounted on this machine, outside all parts."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return {line.split()[4] for line in lines}


if __name__ == "__main__":
    main()
