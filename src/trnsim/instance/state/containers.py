"""Programs in containers of this machine, whose state is in the folder `containers` of the state.

A device plugin gives each container a folder of its own there. Numbers of processes belong to the
container's own namespace; the reader finds this machine's by the line NSpid of proc(5) and the
start time, which both share. A container may write anything into its folder: links, pipes and files
that are no records are skipped, and nothing is written there.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from trnsim.instance.state.identity import start_time
from trnsim.instance.state.record import ProcessRecord, from_json

FOLDER: Final = "containers"
_FILE_NAME_PATTERN: Final = re.compile(r"(\d{1,9})-(\d{1,20})\.json", re.ASCII)
_MOST_BYTES: Final = 16 << 20
_INNER_PID: Final = re.compile(r"^NSpid:[ \t]+\d+[ \t](?:.*[ \t])?(\d+)$", re.MULTILINE)
"""The number of a process in its own namespace, where that is not this machine's."""


def container_records(folder: Path) -> list[ProcessRecord]:
    """The records of live programs in containers, with their numbers on this machine.

    Args:
        folder: the folder of the state of this machine.
    """
    stored_records = list(_stored_records(folder / FOLDER))
    if not stored_records:
        return []
    numbers = _numbers()
    return [
        replace(record, pid=numbers[key])
        for record in stored_records
        if (key := (record.pid, record.start_time)) in numbers
    ]


def _stored_records(folder: Path) -> Iterator[ProcessRecord]:
    if sys.platform != "linux" or not folder.is_dir():
        return
    for path in sorted(folder.glob("*/*.json")):
        name = _FILE_NAME_PATTERN.fullmatch(path.name)
        if name is None:
            continue
        with suppress(OSError, ValueError, RecursionError):
            record = from_json(_content(path))
            if (record.pid, record.start_time) == (int(name[1]), name[2]):
                yield record


def _content(path: Path) -> bytes:
    """The bytes of a regular file that is no link and not longer than a record.

    Raises:
        OSError: it is gone, or a link.
        ValueError: for a file of another form.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
            raise ValueError("no record")
        return os.read(descriptor, _MOST_BYTES)
    finally:
        os.close(descriptor)


def _numbers() -> dict[tuple[int, str], int]:
    """Numbers on this machine of processes in namespaces of their own, by the inner ones."""
    numbers = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            text = (path / "status").read_text(encoding="utf-8", errors="replace")
            inner_match = _INNER_PID.search(text)
            if inner_match:
                pid = int(path.name)
                numbers[int(inner_match[1]), start_time(pid)] = pid
    return numbers
