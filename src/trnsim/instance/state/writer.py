"""The thread that writes a process's state, such as its memory and counters, for monitors to read.

The file is written once when the process begins to use a device, so that it is found, and then
again at most once a second while a reader listens. It is removed at the process's normal end.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Final

from trnsim.errors import BadInput
from trnsim.files import write
from trnsim.instance.state.folder import is_listening, state_folder
from trnsim.instance.state.identity import own_identity
from trnsim.instance.state.record import ProcessRecord, to_json

PERIOD_S: Final = 1.0


def say_not_kept(reason: str) -> None:
    """Print on the standard error, if there is one, why this process has no state."""
    with suppress(OSError, ValueError, AttributeError):  # closed, or None as in a daemon
        sys.stderr.write(f"trnsim: the state of this process is not kept: {reason}\n")


class Writer:
    """The file of this process.

    Attributes:
        problem: the reason why nothing can be written now, or "".
    """

    def __init__(
        self,
        observe: Callable[[], ProcessRecord],
        on_listening: Callable[[bool], None] = lambda _: None,
        each_period: Callable[[Path], None] = lambda _: None,
        period_s: float = PERIOD_S,
    ) -> None:
        """Write the records of `observe`; `on_listening` is called when readers come and go.

        `each_period` is called with the folder once a second, with and without a reader.

        Raises:
            BadInput: the folder of the state cannot be used.
        """
        self._observe = observe
        self._on_listening = on_listening
        self._each_period = each_period
        self._period_s = period_s
        self._folder = state_folder()
        self._pid, start = own_identity()
        self.path: Path = self._folder / f"{self._pid}-{start}.json"
        self.problem = ""
        self._is_said = False
        self._was_listened = False
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="trnsim-state", daemon=True)

    def start(self) -> None:
        """Write the file, and go on in a thread of its own."""
        # Unlike atexit's, these are called at the end of multiprocessing's children too.
        Finalize(None, self.stop, exitpriority=0)
        self._each_period(self._folder)
        self.write()
        self._thread.start()

    def stop(self) -> None:
        """End the thread and remove the file; a fork does not touch its parent's file."""
        if os.getpid() == self._pid:
            self._end.set()
            with suppress(OSError):
                self.path.unlink(missing_ok=True)

    def write(self) -> None:
        """Replace the file by the current record; the first failure is reported."""
        try:
            write(self.path, to_json(self._observe()))
        except BadInput as error:
            # A program must not fail because its state cannot be written.
            self.problem = error.reason
            if not self._is_said:
                self._is_said = True
                say_not_kept(error.reason)
        else:
            self.problem = ""

    def _watch(self) -> None:
        while not self._end.wait(self._period_s):
            self.look()

    def look(self) -> None:
        """Write the file if a reader listens."""
        self._each_period(self._folder)
        is_listened = is_listening(self._folder)
        if is_listened != self._was_listened:
            self._was_listened = is_listened
            self._on_listening(is_listened)
        if is_listened:
            self.write()
