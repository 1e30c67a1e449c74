"""Processes for tests, forked from one that imported once what takes seconds to import.

Run as a program this is that process. For programs of PyTorch it has imported torch without its
backends, and what the device imports of ours; the device itself is loaded after the fork by the
function that ``import torch`` calls last. A test of the order of imports, or of what is not
imported, starts an interpreter instead. For programs of NKI it has imported that alone.
"""

import atexit
import json
import os
import runpy
import subprocess
import sys
import tempfile
import warnings
from functools import cache
from pathlib import Path

AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
CAN_FORK = sys.platform == "linux"


def python(program, *options, kind="torch", cwd=None, check=False, **environment):
    """What ``python OPTIONS -c program`` gives, after ``import torch`` in the same environment.

    The only options are ``-W`` and a filter. `program` imports torch as its first module, or, of
    the kind "nki", something of NKI.
    """
    given = os.environ | environment
    if CAN_FORK:
        done = forked(kind, given, cwd, program=program, options=options)
    else:
        command = [sys.executable, *options, "-c", program]
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=cwd, check=False, env=given
        )
    if check:
        assert done.returncode == 0, done.stderr
    return done


def trnsim(*arguments, cwd):
    """What ``python -m trnsim ARGUMENTS`` gives."""
    arguments = [str(argument) for argument in arguments]
    if CAN_FORK:
        return forked("trnsim", dict(os.environ), cwd, arguments=arguments)
    command = [sys.executable, "-m", "trnsim", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def forked(kind, environment, cwd, **request):
    """What a fork of the process of that kind gives to a request."""
    with tempfile.TemporaryDirectory() as folder:
        where = {"folder": folder, "environment": environment, "cwd": str(cwd or Path.cwd())}
        server = started(kind)
        server.stdin.write(json.dumps(request | where) + "\n")
        server.stdin.flush()
        status = int(server.stdout.readline())
        said = [Path(folder, name).read_text(encoding="utf-8") for name in ("stdout", "stderr")]
    return subprocess.CompletedProcess(request, status, *said)


@cache
def started(kind):
    """The process to fork from, which ends with this one."""
    server = subprocess.Popen(
        [sys.executable, __file__, kind],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={name: v for name, v in os.environ.items() if name != "TRNSIM_NUMERICS"}
        | {AUTOLOAD: "0"},
    )

    @atexit.register
    def end():
        server.stdin.close()
        server.wait()
        server.stdout.close()

    return server


def requested():
    """In each fork the request that it is to serve; None where there are no more."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            return json.loads(line)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")
        sys.stdout.flush()
    return None


def become(request):
    """Make this process the one that was asked for, up to its first line."""
    for number, name, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, Path(request["folder"], "stdout"), os.O_WRONLY | os.O_CREAT),
        (2, Path(request["folder"], "stderr"), os.O_WRONLY | os.O_CREAT),
    ):
        opened = os.open(name, flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["cwd"])
    sys.argv = ["-c", *request.get("arguments", ())]
    sys.path[0] = "" if "program" in request else request["cwd"]
    for filter_ in request.get("options", ())[1::2]:
        action, _, category = filter_.partition("::")
        warnings.filterwarnings(action, category=vars(__builtins__).get(category, Warning))


def load_backends():
    """The last thing that ``import torch`` does."""
    import torch  # noqa: PLC0415  the process to fork from has it; a test's own may do without

    if os.environ.get(AUTOLOAD, "1") == "1":
        torch.__spec__._initializing = True
        try:
            torch._import_device_backends()
        finally:
            torch.__spec__._initializing = False


if __name__ == "__main__":
    import trnsim.nki

    kind = sys.argv[1]
    if kind == "torch":
        import torch  # noqa: F401

        import trnsim.compiler.operators
        import trnsim.device.call_log
        import trnsim.profile
    elif kind == "trnsim":
        import trnsim.cli.run  # noqa: F401

    request = requested()
    # An exception of the program ends this process as it would end an interpreter.
    if request is not None:
        become(request)
        if "program" in request:
            if kind == "torch":
                load_backends()
            exec(compile(request["program"], "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102
        else:
            runpy.run_module("trnsim", run_name="__main__", alter_sys=True)
