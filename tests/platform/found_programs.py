"""Emulated programs that run while a client looks for them."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
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
        folder = Path((os.environ | variables)["TRNSIM_STATE"])
        wait_for(lambda: list(folder.glob(f"{process.pid}-*.json")), "the state of a kernel")
        yield process


@contextmanager
def exporter(**variables):
    """The address of neuron-monitor-prometheus, which has measured something."""
    port = free_port()
    command = [*TRNSIM, "neuron-monitor-prometheus", "--port", str(port)]
    url = f"http://127.0.0.1:{port}/metrics"
    with running(*command, **variables):
        wait_for(lambda: b"\ninstance_info{" in fetched(url), "an exporter with series")
        yield url


def fetched(url):
    """What stands at an address; nothing while nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as answer:  # noqa: S310  the test's own
            return answer.read()
    except OSError:
        return b""


def free_port():
    """A port that nobody listens on now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


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
    raise TimeoutError(f"{what}: not within {seconds:.0f} s")


def upstream(path):
    """A file of a clone, or a skip that says that it is missing."""
    folder = os.environ.get("TRNSIM_UPSTREAM", "")
    file = Path(folder) / path
    if not folder or not file.exists():
        pytest.skip(f"$TRNSIM_UPSTREAM does not name a folder with {path}")
    return file
