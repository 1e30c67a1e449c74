"""`trnsim shell`: this process enters the instance, and becomes the program.

There is no process between the caller and the program, so that exit status, signals and terminal
are the program's own. Other processes in the instance end with the program.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from trnsim.errors import BadInput
from trnsim.instance.model import InstanceModel
from trnsim.instance.shell import contacts, namespace, sysfs, tools

PACKAGED: Final = Path(__file__).parent / "bin"
"""The tools as files of the package, where no folder of the machine can be covered."""
_NOT_FOUND: Final = 127
_NOT_RUN: Final = 126
"""Exit statuses of shells, and of env(1), for a program that cannot be started."""


class Session(NamedTuple):
    """An instance that this process has entered.

    Attributes:
        missing: contact points that could not be made, each with the reason.
    """

    model: InstanceModel
    missing: Mapping[str, str]

    @property
    def notice(self) -> str:
        """The contact points that are missing, in one line; "" where all are there."""
        if not self.missing:
            return ""
        reasons = list(dict.fromkeys(self.missing.values()))
        names = ", ".join(self.missing)
        return f"missing here ({'; '.join(reasons)}): {names}"


def enter(instance: str | None, lnc: int | None) -> Session:
    """Move this process into an emulated instance.

    Raises:
        BadInput: it is in one already, or there is no such instance or LNC.
    """
    if namespace.is_inside() or str(PACKAGED) in os.environ.get("PATH", "").split(os.pathsep):
        name = os.environ.get("TRNSIM_INSTANCE", "instance")
        raise BadInput(f"this is inside an emulated {name} already", fix="exit it first")
    refusal = ""
    try:
        namespace.enter()
    except namespace.NamespaceRefusal as error:
        refusal = str(error)
    # Only now: it imports numpy, which starts threads, and these forbid a namespace.
    from trnsim.instance.model import instance_model  # noqa: PLC0415

    model = instance_model(instance, lnc)
    if refusal:
        return Session(model, dict.fromkeys(contacts.CONTACTS, refusal))
    session = Session(model, contacts.make(model))
    with suppress(OSError):
        os.chdir(os.getcwd())  # by its path again: the folder may be covered
    return session


def variables(session: Session, lnc: int | None) -> dict[str, str]:
    """The environment of a program in the instance."""
    environment = dict(os.environ)
    environment["TRNSIM_INSTANCE"] = session.model.name
    if lnc is not None:
        environment["NEURON_LOGICAL_NC_CONFIG"] = str(lnc)
    folder = tools.FOLDER
    if folder in session.missing:
        folder = str(PACKAGED)
        environment["TRNSIM_PYTHON"] = sys.executable
    environment["PATH"] = os.pathsep.join((folder, environment.get("PATH", os.defpath)))
    return environment


def become(
    session: Session,
    command: Sequence[str],
    environment: dict[str, str],
    say: Callable[[str], None],
) -> int:
    """Run `command` in the instance, in place of this process where the system supports that.

    Returns only on Windows, and where the program cannot be started: the exit status.
    """
    program = list(command) or [_shell(environment)]
    if sys.platform == "win32":
        return _call(program, environment, say)
    if sysfs.ROOT not in session.missing:
        _start_keeper(session.model, environment)
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError):  # None where it was closed
            stream.flush()
    for name in ("SIGPIPE", "SIGXFSZ"):  # Python ignores them, and programs inherit that
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execvpe(program[0], program, environment)  # noqa: S606  the program that was asked for
    except OSError as error:
        say(f"cannot run {program[0]}: {error.strerror}")
        return _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_RUN
    except ValueError:  # the error of C's execvp, which shells report
        say(f"cannot run {program[0]!r}: {os.strerror(errno.ENOENT)}")
        return _NOT_FOUND


def _shell(environment: Mapping[str, str]) -> str:
    if sys.platform == "win32":
        return environment.get("COMSPEC", "cmd.exe")
    return environment.get("SHELL") or "/bin/sh"


def _call(command: list[str], environment: dict[str, str], say: Callable[[str], None]) -> int:
    """Run the program as a child, and leave Ctrl-C to it."""
    executable = shutil.which(command[0], path=environment["PATH"])
    if executable is None:
        say(f"cannot run {command[0]}: there is no such program")
        return _NOT_FOUND
    old_handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return subprocess.run([executable, *command[1:]], env=environment, check=False).returncode  # noqa: S603
    finally:
        signal.signal(signal.SIGINT, old_handler)


def _start_keeper(model: InstanceModel, environment: dict[str, str]) -> None:
    """Start the process that refreshes sysfs and ends processes that the program leaves running.

    It is nobody's child: a program that waits for all its children never waits for it.
    """
    keeper = [sys.executable, "-P", "-m", "trnsim.instance.shell.keeper"]
    arguments = [str(os.getpid()), model.name, str(model.lnc)]
    with subprocess.Popen(  # noqa: S603
        ["/bin/sh", "-c", '"$@" &', "sh", *keeper, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=environment | {"OPENBLAS_NUM_THREADS": "1"},
    ):
        pass
