"""The folder of the state, which only its user can read.

`$TRNSIM_STATE`, or else the user's state folder. A reader sets the modification time of the file
`listening` to the time until which it wants the state, so that a check costs one `stat`.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from trnsim.errors import BadInput
from trnsim.files import check_folder, write

STATE_VARIABLE: Final = "TRNSIM_STATE"
OFF: Final = "off"
"""The value of that variable for no state."""
_FIX: Final = f"name a folder of your own: {STATE_VARIABLE}=DIR"
LISTENING: Final = "listening"
"""The file whose time is the end of a reader's interest in the state."""
_OTHER_USERS_MODE: Final = 0o077
"""Bits of a mode that give rights to users other than the owner."""
_OWNER_FOLDER_MODE: Final = 0o700
LONGEST_S: Final = 3600.0
"""Longest time that a reader may request; a later one comes from a clock that was set back."""


def folder() -> Path:
    """The folder of the state: TRNSIM_STATE, else the user's state folder; it need not exist.

    Raises:
        BadInput: TRNSIM_STATE is "off", or the user has no home.
    """
    folder_name = os.environ.get(STATE_VARIABLE)
    if folder_name == OFF:
        raise BadInput(f"{STATE_VARIABLE}={OFF}: no state is kept", fix=_FIX)
    try:
        # A program may change its working directory, and its state stays where it began.
        return Path(folder_name).absolute() if folder_name else _of_user()
    except OSError as error:  # the working directory is gone
        raise _unusable(folder_name or "", error) from error
    except RuntimeError as error:  # of Path.home: neither a variable nor the system names one
        raise BadInput("there is no home in which a state could be kept", fix=_FIX) from error


def _of_user() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home()) / "trnsim" / "state"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "trnsim" / "state"
    xdg_folder = Path(os.environ.get("XDG_STATE_HOME", ""))
    state_home = xdg_folder if xdg_folder.is_absolute() else Path.home() / ".local" / "state"
    return state_home.absolute() / "trnsim"


def _unusable(path: Path | str, error: OSError) -> BadInput:
    return BadInput(f"cannot use the state folder {path}: {error.strerror}", fix=_FIX)


def state_folder() -> Path:
    """The folder of the state, made if it is missing.

    Raises:
        BadInput: there is none, or it is a link, another user's, open to others, or cannot be
            written to.
    """
    path = folder()
    try:
        with suppress(FileExistsError):  # perhaps of another process that began just now
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir(mode=_OWNER_FOLDER_MODE)
        status = path.lstat()
    except OSError as error:
        raise _unusable(path, error) from error
    if stat.S_ISLNK(status.st_mode):
        raise BadInput(f"the state folder {path} is a link", fix=_FIX)
    if stat.S_ISDIR(status.st_mode) and sys.platform != "win32":
        if status.st_uid != os.getuid():
            raise BadInput(f"the state folder {path} belongs to another user", fix=_FIX)
        if stat.S_IMODE(status.st_mode) & _OTHER_USERS_MODE:
            raise BadInput(f"others may look into the state folder {path}", fix=f"chmod 700 {path}")
    check_folder(path)
    return path


def listen(path: Path, for_s: float) -> None:
    """Request all processes to write their state for `for_s`; a longer request of others stays.

    Raises:
        BadInput: the folder cannot be written to.
    """
    file, until = path / LISTENING, time.time() + min(for_s, LONGEST_S)
    if _listening_until(path) < until:
        if not file.exists():
            write(file, "")
        with suppress(FileNotFoundError):
            os.utime(file, (until, until))


def is_listening(path: Path) -> bool:
    """True if a reader wants the state now."""
    return _listening_until(path) > time.time()


def _listening_until(path: Path) -> float:
    """Time when the longest request ends; 0 without such a file."""
    try:
        until = (path / LISTENING).stat().st_mtime
    except OSError:
        return 0.0
    return until if until <= time.time() + LONGEST_S else 0.0
