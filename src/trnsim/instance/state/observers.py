"""Tools that observe the instance now, as ``neuron-ls --show-all-procs`` lists them.

Each has a file in the folder `observers` of the state, named by its number and start time, with
the tool's command. The next reader removes the file of a tool that was killed.
"""

from __future__ import annotations

import atexit
import re
import shlex
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from trnsim.files import write
from trnsim.instance.state.identity import is_alive, own_identity

FOLDER: Final = "observers"
_FILE_NAME_PATTERN: Final = re.compile(r"(\d+)-(\w+)\.txt")


class Observer(NamedTuple):
    """A tool: its process, and its command without the program that runs it."""

    pid: int
    command: str


def own_command() -> str:
    """The command of this process in AWS's form: "neuron-ls -a" for `trnsim neuron-ls -a`."""
    return shlex.join(sys.argv[1:])


def announce(folder: Path) -> None:
    """List this process as a tool until it ends.

    Raises:
        BadInput: the folder of the state cannot be written to.
    """
    observers(folder)  # removes those of tools that were killed
    pid, start = own_identity()
    path = folder / FOLDER / f"{pid}-{start}.txt"
    write(path, own_command() + "\n", parents=True)
    atexit.register(_remove, path)


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink(missing_ok=True)


def observers(folder: Path) -> list[Observer]:
    """The running tools, by pid."""
    running_observers = []
    for path in (folder / FOLDER).glob("*.txt"):
        name = _FILE_NAME_PATTERN.fullmatch(path.name)
        if name is None:
            continue
        with suppress(OSError, ValueError):  # it has just ended, or holds no text
            if is_alive(int(name[1]), name[2]):
                running_observers.append(
                    Observer(int(name[1]), path.read_text(encoding="utf-8").strip())
                )
            else:
                path.unlink(missing_ok=True)
    return sorted(running_observers)
