"""Programs started from a shell, as their READMEs start them."""

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


GLOO_AT_EXIT = "terminate called without an active exception"
"""How gloo may end a process of PyTorch 2.13 on the CPU that has done its work."""
HOST: Final = ("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
"""What starts a program without the device."""
PATIENCE_S: Final = 1800
"""Seconds after which a program hangs. A rank imports for ten seconds of CPU, which beside other
work on the same cores take minutes."""


def run(command, folder, **environment):
    """What the command printed, on both streams.

    Raises:
        AssertionError: with the end of it, if the command failed; on the CPU alone gloo may end a
            process that has done its work.
    """
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        timeout=PATIENCE_S, cwd=folder,
        env=os.environ
        | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "HF_HOME": str(folder)}
        | environment,
    )  # fmt: skip
    is_gloos = HOST in environment.items() and GLOO_AT_EXIT in done.stdout
    assert done.returncode == 0 or is_gloos, done.stdout[-4000:]
    return done.stdout


def torchrun(processes, program, *arguments, folder, **environment):
    """`torchrun --nproc-per-node=N program ...`."""
    start = Path(sys.executable).parent / "torchrun"
    options = ["--standalone", f"--nproc-per-node={processes}"]
    return run([str(start), *options, str(program), *arguments], folder, **environment)
