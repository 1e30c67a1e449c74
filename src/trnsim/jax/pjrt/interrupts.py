"""Ctrl-C while JAX is inside a slot, a function that C calls: it is delayed to the slot's return.

Python handles a signal at its next instruction. After a long step that is the first instruction of
a slot, through which an exception cannot pass: the slot ends, and Ctrl-C is raised again.
"""

from __future__ import annotations

import _thread
import gc
import signal
import threading
from types import CodeType, FrameType
from typing import Final

slot_codes: Final[set[CodeType]] = set()
"""The code of the functions that C calls."""

_SOON_S: Final = 0.002
"""Short, as a program that waits for steps is in a slot almost always."""


def interrupt_again() -> None:
    """Interrupt the program once more, soon."""
    threading.Timer(_SOON_S, _thread.interrupt_main).start()


def install_handler() -> None:
    """Put the handler before Python's own; a handler of the program is left in place."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _handle)


def _handle(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt; later if the program is in a slot or a callback of `gc`.

    JAX has such a callback, and Python ignores exceptions that it raises.
    """
    gc_codes = {getattr(callback, "__code__", None) for callback in gc.callbacks}
    caller = frame
    while caller is not None:
        if caller.f_code in slot_codes or caller.f_code in gc_codes:
            interrupt_again()
            return
        caller = caller.f_back
    signal.default_int_handler(number, frame)
