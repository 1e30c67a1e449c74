"""Programs started from a shell, as their READMEs start them."""

import os
import socket
import subprocess
import sys
from pathlib import Path


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


GLOO_AT_EXIT = "terminate called without an active exception"
"""How gloo may end a process of PyTorch 2.13 that has done its work, on the CPU alone too."""


def run(command, folder, **environment):
    """What the command printed, on both streams.

    Raises:
        AssertionError: with the end of it, if the command failed, but for gloo at a process's exit.
    """
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=500,
        cwd=folder,
        env=os.environ
        | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "HF_HOME": str(folder)}
        | environment,
    )  # fmt: skip
    assert done.returncode == 0 or GLOO_AT_EXIT in done.stdout, done.stdout[-4000:]
    return done.stdout


def torchrun(processes, program, *arguments, folder, **environment):
    """`torchrun --nproc-per-node=N program ...`."""
    start = Path(sys.executable).parent / "torchrun"
    options = ["--standalone", f"--nproc-per-node={processes}"]
    return run([str(start), *options, str(program), *arguments], folder, **environment)
