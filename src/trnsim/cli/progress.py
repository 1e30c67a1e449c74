"""Progress of long commands: one line on stderr, where that is a terminal."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

_PAUSE_S: Final = 0.2
"""Least time between two messages, and how long a command may take without one."""
_CLEAR: Final = "\r\x1b[K"


@contextmanager
def progress() -> Generator[Callable[[str], None]]:
    """Shows what it is called with, at most five times a second, and clears it at the end."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    last_s = time.monotonic()

    def tell(message: str) -> None:
        nonlocal last_s
        now_s = time.monotonic()
        if now_s - last_s >= _PAUSE_S:
            last_s = now_s
            sys.stderr.write(f"{_CLEAR}{message}")
            sys.stderr.flush()

    try:
        yield tell
    finally:
        sys.stderr.write(_CLEAR)
        sys.stderr.flush()
