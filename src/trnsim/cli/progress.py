"""Progress of long commands: one line on stderr, where that is a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from trnsim.cli.terminal import width
from trnsim.foreign_text import terminal_text

_PAUSE_S: Final = 0.2
"""Time between two messages, and before the first one."""
_CLEAR_LINE: Final = "\r\x1b[K"


@contextmanager
def progress() -> Generator[Callable[[str], None]]:
    """A context with a function that shows a message, at most five times per second."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    last_s = time.monotonic()

    def tell(message: str) -> None:
        nonlocal last_s
        now_s = time.monotonic()
        if now_s - last_s >= _PAUSE_S:
            last_s = now_s
            # _CLEAR_LINE clears one line, so a message is cut to the terminal's width.
            sys.stderr.write(f"{_CLEAR_LINE}{terminal_text(message)[: width() - 1]}")
            sys.stderr.flush()

    try:
        yield tell
    finally:
        sys.stderr.write(_CLEAR_LINE)
        sys.stderr.flush()
