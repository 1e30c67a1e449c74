"""Namespaces for a part of a cluster: mounts, network and processes of its own.

All that a part starts ends with its first process, and no mount or address of it is seen outside.
"""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

INSIDE = "TRNSIM_CLUSTER_INSIDE"
ADDRESS = "10.250.0.1"
NETWORK = f"ip link set lo up && ip address add {ADDRESS}/32 dev lo && ip route add default dev lo"
"""A network of this machine alone; kubelet takes the address of the default route for its own."""
CGROUPS = Path("/sys/fs/cgroup")


def enter():
    """Run this script again in namespaces of its own, unless it is in them."""
    if os.environ.get(INSIDE):
        return
    command = (
        *("unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "--kill-child"),
        *("sh", "-c", f'{NETWORK} && exec "$@"', "sh", sys.executable, *sys.argv),
    )
    os.execvpe(command[0], command, {**os.environ, INSIDE: "1"})  # noqa: S606  this again


def cover(*folders):
    """Cover folders of this machine with empty ones in memory; those that were made for it.

    Folders that do not exist are made, and `remove` takes them away again.
    """
    made = []
    for folder in map(Path, folders):
        if not folder.exists():
            folder.mkdir(parents=True)
            made.append(folder)
        subprocess.run(["mount", "-t", "tmpfs", "cluster", str(folder)], check=True)
    return made


def remove(made):
    """Take away folders that `cover` made; kubelet mounts its own once more on itself."""
    for folder in made:
        while folder.is_mount():
            subprocess.run(["umount", "-l", str(folder)], check=True)
        with suppress(OSError):
            folder.rmdir()


def processes():
    """Command lines of the processes in this namespace, without this one and its own children."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (path / "cmdline").read_bytes().split(b"\0")
            if int(path.name) != os.getpid() and words != [b""]:
                found[int(path.name)] = b" ".join(words).decode(errors="replace").strip()
    return found


def remove_groups(name):
    """Remove the empty control groups below `name`, in all hierarchies; those that are left."""
    groups = [path for path in CGROUPS.glob(f"*/{name}") if path.is_dir()]
    if (CGROUPS / name).is_dir():  # of version 2
        groups.append(CGROUPS / name)
    for group in groups:
        for path in sorted(group.rglob("*"), reverse=True):
            with suppress(OSError):
                if path.is_dir():
                    path.rmdir()
        with suppress(OSError):
            group.rmdir()
    return [str(path) for path in groups if path.exists()]
