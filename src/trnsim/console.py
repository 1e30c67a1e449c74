"""Programs of AWS by their own names: neuronx-cc and neuron_parallel_compile.

AWS's own wins. Where its package is installed beside this one, its entry point runs, whichever of
the two wrote the script; else the first program of that name on PATH that is not this package's.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

_OWN = b"trnsim.console"
"""The module that every script of this package imports; a path may have the word trnsim too."""
_SCRIPT_BYTES_MAX = 1 << 20
_MARK = "TRNSIM_CONSOLE"
"""Variable in the environment of a program that one of these scripts started.

Such a program runs the command here, and starts no further program of its name.
"""


def neuronx_cc() -> None:
    """`neuronx-cc`."""
    _run("neuronx-cc")


def neuron_parallel_compile() -> None:
    """`neuron_parallel_compile`."""
    _run("neuron_parallel_compile")


def _run(name: str) -> None:
    """Run AWS's program of that name; without one, trnsim's command of that name."""
    if os.environ.get(_MARK) != name:
        _run_installed(name)
        other = other_program(name, os.environ.get("PATH", ""))
        if other is not None:
            os.environ[_MARK] = name
            os.execv(other, [str(other), *sys.argv[1:]])  # noqa: S606  the user's own program
    from trnsim.__main__ import main  # noqa: PLC0415  most of the time of a start

    sys.argv[1:1] = [name]
    main()


def _run_installed(name: str) -> None:
    """End with the entry point `name` of another package, if one is installed beside this one."""
    from importlib.metadata import entry_points  # noqa: PLC0415  as above

    for point in entry_points(group="console_scripts", name=name):
        if point.dist is not None and point.dist.name != "trnsim":
            raise SystemExit(point.load()())


def other_program(name: str, path: str) -> Path | None:
    """The first program `name` in the folders of `path` that is not this package's.

    An empty folder of `path` is the working folder (POSIX); an empty `path` has no folders.
    """
    executables = (name, f"{name}.exe") if sys.platform == "win32" else (name,)
    for folder in path.split(os.pathsep) if path else ():
        for executable in executables:
            file = Path(folder or os.curdir) / executable
            if file.is_file() and os.access(file, os.X_OK) and not _is_own(file):
                return file
    return None


def _is_own(file: Path) -> bool:
    """True for a script of this package, in any environment, and for one that cannot be read."""
    try:
        if file.stat().st_size > _SCRIPT_BYTES_MAX:
            return False
        return _OWN in file.read_bytes()
    except OSError:
        return True
