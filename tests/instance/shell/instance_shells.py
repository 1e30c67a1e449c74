"""Programs run in `trnsim shell`, and what a machine has outside of it."""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from trnsim.instance.shell import linux_calls

SMALL = "trn1.2xlarge"  # one device of two cores: it starts fastest
COMMAND = [sys.executable, "-P", "-m", "trnsim", "shell"]
_TRY = """
from trnsim.instance.shell import namespace
try:
    namespace.enter()
except namespace.NamespaceRefusal as error:
    print(error)
"""


def answer(program, *prefix, python=sys.executable, **settings):
    """What a program of Python prints, or why it does not run."""
    try:
        done = subprocess.run(
            [*prefix, python, "-P", "-c", program],
            capture_output=True,
            text=True,
            timeout=60,
            cwd="/",
            check=False,
            **settings,
        )
    except OSError as error:
        return str(error)
    return (done.stdout + done.stderr).strip()


REFUSED = answer(_TRY) if sys.platform == "linux" else f"{sys.platform} has none"
needs_namespace = pytest.mark.skipif(
    bool(REFUSED), reason=f"no private mount namespace here: {REFUSED}"
)
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
NOBODYS = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "HOME": "/"}


@cache
def nobodys_python():
    """An interpreter with trnsim that the user nobody can run, or a skip that says why not."""
    starts = (
        "import os, sys; os.execv(sys.argv[1], [sys.argv[1], '-P', '-c', 'import trnsim.files'])"
    )
    for python in (sys.executable, shutil.which("python3", path="/usr/bin:/bin") or "python3"):
        # Started twice, as the first start finds its way with what is left of root's rights.
        program = f"import sys; sys.argv[1:] = [{python!r}]; {starts}"
        refused = answer(program, *NOBODY, python=python, env=NOBODYS)
        if not refused:
            return python
    return pytest.skip(f"nobody cannot run an interpreter with trnsim: {refused[-80:]}")


needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root becomes another user"
)


def shell(*command, options=("--instance", SMALL), starts=COMMAND, **settings):
    """A program that ran in an instance to its end."""
    return subprocess.run(
        [*starts, *options, "--", *command],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **settings,
    )


def python(program, **settings):
    """A program of Python that ran in an instance to its end."""
    return shell(sys.executable, "-c", program, **settings)


def outside():
    """The machine's mounts, and its folders that an instance adds to."""
    folders = ("/", "/dev", "/opt", "/run", "/sys/class", "/sys/devices/virtual", "/tmp")  # noqa: S108
    return (
        [
            line
            for line in Path("/proc/self/mountinfo").read_text().splitlines()
            if "trnsim" in line
        ],
        Path("/proc/devices").read_text(),
        {
            folder: sorted(name for name in os.listdir(folder) if "neuron" in name or "aws" in name)
            for folder in folders
            if Path(folder).is_dir()
        },
    )


def running(text):
    """The numbers of processes whose command line has `text`."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            line = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if text in line and path.name != str(os.getpid()):
            found.append(int(path.name))
    return found


def in_fork(function):
    """The exit status of a child that calls `function` in a namespace of its own."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = function() or 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def in_namespace(function):
    """The exit status of `function` in a child with private mounts."""

    def entered():
        linux_calls.unshare(linux_calls.CLONE_NEWNS)
        linux_calls.mount("none", "/", flags=linux_calls.MS_REC | linux_calls.MS_PRIVATE)
        return function()

    return in_fork(entered)
