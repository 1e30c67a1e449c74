"""Emulated programs that run while a client looks for them."""

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
TRNSIM = [sys.executable, "-P", "-m", "trnsim"]
SECONDS = 120.0
"""How long a client may take on a busy machine."""


@contextmanager
def running(*command, **variables):
    """A process that is ended with the block."""
    process = subprocess.Popen(command, env=os.environ | variables, stdin=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(SECONDS)


@contextmanager
def kernel(**variables):
    """A program that runs a kernel over and over, and is known to the state."""
    program = str(FOLDER / "kernel_program.py")
    with running(sys.executable, program, **variables) as process:
        wait_for(lambda: known(process.pid), "the state of a running kernel")
        yield process


def known(pid):
    """The files of the state of one process."""
    return list(Path(os.environ["TRNSIM_STATE"]).glob(f"{pid}-*.json"))


def printed(*command, **settings):
    """What a program writes, which must end well."""
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS, check=False, **settings
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def wait_for(found, what, seconds=SECONDS):
    """What `found` returns, as soon as it is true."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        answer = found()
        if answer:
            return answer
        time.sleep(0.2)
    pytest.fail(f"{what}: not within {seconds:.0f} s")


def upstream(path):
    """A file of a clone, or a skip that says that it is missing."""
    folder = os.environ.get("TRNSIM_UPSTREAM", "")
    file = Path(folder) / path
    if not folder or not file.exists():
        pytest.skip(f"$TRNSIM_UPSTREAM does not name a folder with {path}")
    return file
