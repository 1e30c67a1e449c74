"""Reading and writing the user's files: errors that say why, and atomic writes."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import numpy.typing as npt
from numpy.lib.format import open_memmap

from trnsim.errors import BadInput, SourceLine
from trnsim.foreign_text import terminal_text

_ARCHIVE: Final = b"PK"
_KINDS: Final = {stat.S_IFIFO: "pipe", stat.S_IFCHR: "device", stat.S_IFSOCK: "socket"}
_READING: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""Flags to read a file; without the second, opening a pipe would wait for a writer."""
_FULL_DISK_FIX: Final = "make room on that disk, or name a file on another"
_FOLDER_FIX: Final = "name another folder"
_MOST_BYTES: Final = 2**31
"""Bytes of the longest file that is read; a trace of ten million requests has half as many."""
_MOST_NAMES: Final = 1000
"""Names of a folder that are compared with that of a missing file."""
_MOST_CHARS: Final = 200
"""Characters of the missing file's name that are compared."""
_LEAST_SIMILARITY: Final = 0.8
"""difflib's ratio from which a name is suggested in place of the missing one."""
_MISSING_FILE_FIX: Final = "name a file that exists, by its path from here"
_NO_FILE_FIX: Final = "name a file in it"
_UNWRITABLE_FIX: Final = "name a file in a folder that exists and that you may write to"


def read_bytes(path: Path | str, fix: str = "") -> bytes:
    """The bytes of the file at `path`.

    Raises:
        BadInput: it does not exist, is a folder, has more than 2 GiB, or may not be read.
    """
    try:
        with _opened(path, fix) as stream:
            nbytes = os.fstat(stream.fileno()).st_size
            if nbytes > _MOST_BYTES:
                raise BadInput(
                    f"cannot read {path}: it has {nbytes:,} bytes; legal: at most {_MOST_BYTES:,}",
                    fix=fix or "name the file that was meant, or a part of it",
                )
            return stream.read()
    except (OSError, MemoryError) as error:
        raise BadInput(f"cannot read {path}: {_reason(error)}", fix=fix) from error


def check_readable(path: Path | str, fix: str = "") -> None:
    """Raise `BadInput` now if a file that other code will open cannot be opened.

    Raises:
        BadInput: it does not exist, is a folder, or may not be read.
    """
    _opened(path, fix).close()


def _opened(path: Path | str, fix: str) -> IO[bytes]:
    """The regular file at `path`, open for reading; nothing waits for a pipe or reads a device.

    Raises:
        BadInput: it does not exist, is no regular file, or may not be read.
    """
    try:
        handle = os.open(path, _READING)
    except (OSError, ValueError) as error:  # ValueError: a path that no file can have
        fix = fix or _MISSING_FILE_FIX
        if isinstance(error, FileNotFoundError):
            fix = _fix_of_missing(Path(path), fix)
        raise BadInput(f"cannot read {path}: {_reason(error)}", fix=fix) from error
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(handle, "rb")
    os.close(handle)
    if stat.S_ISDIR(mode):
        is_empty = "; an empty name is this folder" if Path(path) == Path() else ""
        fix = fix or _NO_FILE_FIX
        raise BadInput(f"cannot read {path}: {os.strerror(errno.EISDIR)}{is_empty}", fix=fix)
    raise BadInput(
        f"cannot read {path}: it is a {_KINDS.get(stat.S_IFMT(mode), 'special file')}, which may "
        "never end; legal: a regular file",
        fix="write what it gives to a file, and name that",
    )


def _fix_of_missing(path: Path, fix: str) -> str:
    """The fix for a missing file: a similar name in its folder, or its first missing folder."""
    folders = path.parents
    first_missing = next((folder for folder in reversed(folders) if not folder.exists()), None)
    if first_missing is not None:
        return f"there is no folder {first_missing}; {fix}"
    with suppress(OSError), os.scandir(path.parent) as entries:
        names = {entry.name.casefold(): entry.name for entry in islice(entries, _MOST_NAMES)}
        matches = get_close_matches(path.name.casefold()[:_MOST_CHARS], names, 1, _LEAST_SIMILARITY)
        if matches:
            return f"did you mean {path.with_name(names[matches[0]])}? If not, {fix}"
    return fix


def read_text(path: Path | str, fix: str = "") -> str:
    """The UTF-8 text of the file at `path`, without a byte order mark.

    Raises:
        BadInput: it cannot be read, or is not UTF-8 (the message names the line).
    """
    return decoded(read_bytes(path, fix), path, fix)


def decoded(stored: bytes, path: Path | str, fix: str) -> str:
    """The UTF-8 text in `stored`, which messages call `path`, without a byte order mark.

    Raises:
        BadInput: it is not UTF-8 (the message names the line).
    """
    try:
        return stored.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = stored.count(b"\n", 0, error.start) + 1
        raise BadInput(
            f"{path}:{number}: byte 0x{stored[error.start]:02x} is no UTF-8 text",
            fix="save the file as UTF-8" + (f"; {fix}" if fix else ""),
            line=SourceLine(str(path), number),
        ) from error


def read_array(path: Path | str) -> npt.NDArray[Any]:
    """The array of numbers that numpy.save wrote to `path`.

    The shape in the header is checked against the size of the file before anything is allocated.

    Raises:
        BadInput: it cannot be read, is cut off, or is not such an array.
    """
    fix = "give a file that numpy.save wrote, of numbers"
    try:
        with _opened(path, fix) as stream:
            start = stream.read(len(_ARCHIVE))
        if start in (b"", _ARCHIVE):
            problem = "an archive of arrays (.npz)" if start else "the file is empty"
            raise BadInput(f"{path}: {problem}", fix=fix)
        with np.errstate(over="ignore"):  # numpy warns of a huge header shape before it refuses it
            return np.array(open_memmap(path, mode="r"))
    except OSError as error:
        raise BadInput(f"cannot read {path}: {_reason(error)}", fix=fix) from error
    except (ValueError, TypeError, ArithmeticError) as error:
        # Not numpy's own message: it advises loading pickles, which run code.
        is_cut_off = "mmap length" in str(error)
        problem = "shorter than its own header says" if is_cut_off else "not an array of numbers"
        raise BadInput(f"{path}: {problem}", fix=fix) from error


def write(path: Path | str, content: str | bytes, *, parents: bool = False) -> Path:
    """Write `content` to `path` atomically: a reader sees the old file or the new, never a part.

    Text is UTF-8, without terminal control sequences (`foreign_text.terminal_text`);
    `parents` makes missing folders.

    Raises:
        BadInput: the path cannot be written.
    """
    with Draft(path, parents=parents) as unfinished:
        unfinished.write_bytes(_stored(content))
    return Path(path)


def write_together(folder: Path | str, contents: Mapping[str, str | bytes]) -> list[Path]:
    """Write all of the files to `folder`, which is made, or none of them; their paths.

    Raises:
        BadInput: one of them cannot be written.
    """
    paths = [Path(folder) / name for name in contents]
    with ExitStack() as drafts:
        for path, content in zip(paths, contents.values(), strict=True):
            unfinished = drafts.enter_context(Draft(path, parents=True))
            unfinished.write_bytes(_stored(content))
    return paths


def _stored(content: str | bytes) -> bytes:
    """The bytes of a file's content; control characters of a text are spelled out."""
    return terminal_text(content).encode() if isinstance(content, str) else content


def append(path: Path | str, line: str) -> None:
    """Add a line to the file at `path` in one write, so that lines of several processes stay whole.

    Raises:
        BadInput: the path cannot be written.
    """
    try:
        _check_name(path)
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            stored = f"{line}\n".encode()
            if os.write(descriptor, stored) < len(stored):  # which is no error to the system
                raise _os_error(errno.ENOSPC)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _unwritable(path, error) from error


class Draft:
    """A temporary file beside `path` that replaces it on success and is removed on an error.

    Its name is new, so no existing file is touched. A link is followed, permissions of an
    existing file are kept, and what is no regular file (a device, a pipe) is written directly.

    Raises:
        BadInput: the path cannot be written, or an OSError was raised inside the block.
    """

    def __init__(self, path: Path | str, *, parents: bool = False) -> None:
        self._path = Path(path)
        self._parents = parents
        self._target = self._unfinished = self._path

    def __enter__(self) -> Path:
        try:
            _check_name(self._path)
            if self._parents:
                self._path.parent.mkdir(parents=True, exist_ok=True)
            self._target = self._unfinished = _target(self._path)
            if self._target.is_file() or not self._target.exists():
                self._unfinished = _new_beside(self._target)
        except OSError as error:
            raise _unwritable(self._path, error) from error
        return self._unfinished

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if error is None and self._unfinished != self._target:
                if self._target.exists():
                    self._unfinished.chmod(stat.S_IMODE(self._target.stat().st_mode))
                self._unfinished.replace(self._target)
        except OSError as failure:
            raise _unwritable(self._path, failure) from failure
        finally:
            if self._unfinished != self._target:
                with suppress(OSError):
                    self._unfinished.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _unwritable(self._path, error) from error


def check_writable(path: Path | str) -> None:
    """Raise `BadInput` for a `path` that cannot be written, before work is done for it.

    Raises:
        BadInput: it is a folder, or its folder is missing or may not be written to.
    """
    try:
        _target(Path(path))
    except OSError as error:
        raise _unwritable(path, error) from error


def check_folder(path: Path | str) -> None:
    """Raise `BadInput` for a folder that cannot be made or written to; nothing is left there.

    Raises:
        BadInput: `path`, or a folder on the way to it, is a file or may not be written to.
    """
    path = Path(path)
    try:
        _check_name(path)
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    except OSError as error:  # a name that is too long, or a folder that hides what is in it
        raise BadInput(
            f"cannot write to the folder {path}: {_reason(error)}", fix=_FOLDER_FIX
        ) from error
    first_folder = path if not missing else missing[-1].parent
    if not first_folder.is_dir():
        problem = "it is a file" if first_folder == path else f"{first_folder} is a file"
        raise BadInput(f"cannot write to the folder {path}: {problem}", fix=_FOLDER_FIX)
    try:
        path.mkdir(parents=True, exist_ok=True)
        _target(path / secrets.token_hex(8))
    except OSError as error:
        raise BadInput(
            f"cannot write to the folder {path}: {_reason(error)}", fix=_FOLDER_FIX
        ) from error
    finally:
        for folder in missing:
            with suppress(OSError):
                folder.rmdir()


def _target(path: Path) -> Path:
    """The file that a write to `path` reaches: `path` itself, or the target of its link.

    Raises:
        OSError: it is a folder or a link to itself, no file can have its name, or its folder is
            missing or may not be written to.
    """
    _check_name(path)
    try:
        target = path.resolve() if path.is_symlink() else path
    except RuntimeError:  # links that lead to each other; from Python 3.13 on they are resolved
        target = path
    if target.is_symlink():
        raise _os_error(errno.ELOOP)
    if target.is_dir():
        raise _os_error(errno.EISDIR)
    if not target.parent.exists():
        raise _os_error(errno.ENOENT)
    if not target.parent.is_dir():
        raise _os_error(errno.ENOTDIR)
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        raise _os_error(errno.EROFS if _is_read_only(target.parent) else errno.EACCES)
    return target


def _check_name(path: Path | str) -> None:
    """Refuse a path that no file can have, for which the system's calls raise a ValueError.

    Raises:
        OSError: it has a NUL character.
    """
    if "\0" in str(path):
        raise OSError(errno.EINVAL, "its name has a NUL character")


def _is_read_only(folder: Path) -> bool:
    """True if the file system of `folder` is read-only; False where the system does not tell."""
    return hasattr(os, "statvfs") and bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


def _unwritable(path: Path | str, error: OSError) -> BadInput:
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return BadInput(
        f"cannot write {path}: {_reason(error)}", fix=_FULL_DISK_FIX if is_full else _UNWRITABLE_FIX
    )


def _os_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def _new_beside(target: Path) -> Path:
    """A new empty file in the folder of `target`, with the permissions of a new file."""
    while True:
        unfinished = target.with_name(f".trnsim-{secrets.token_hex(6)}.tmp")
        try:
            os.close(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        except FileExistsError:
            continue
        return unfinished


def _reason(error: Exception) -> str:
    reason = (isinstance(error, OSError) and error.strerror) or str(error)
    return reason or "it is larger than this machine's memory"  # a MemoryError says nothing
