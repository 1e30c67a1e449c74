"""The sweep: buffers that no array of JAX holds any more are freed.

C++ frees a buffer through a function that cannot be Python's (`trnsim.jax.pjrt.table`), so it is
found out: JAX lists its live arrays, and an array says which handle it has. A buffer that is in no
array is dead, unless the call that made it may still be running: then C++ holds it alone. Such a
call is known by its place, the innermost frame of Python below it and the instruction there.

The device sweeps when it has handed out much since the last time, before it tells how much memory
is in use, and before it refuses memory.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Final, TypeAlias

from trnsim.jax import private

if TYPE_CHECKING:
    from types import FrameType

    from trnsim.jax.pjrt.buffers import Buffer

Place: TypeAlias = tuple[int, int]
"""A frame and an instruction in it, at which C++ was called."""

buffers: Final[dict[int, Buffer]] = {}
"""Every buffer that is not known to be dead, by its handle."""

_EVERY_BYTES: Final = 256 << 20
_EVERY_BUFFERS: Final = 4096
_YOUNG_S: Final = 5.0
"""How long a buffer that was never in an array is kept at a place that is being called again."""


class _Made:
    """What was made since the last sweep: its size, and by which thread at which place."""

    def __init__(self) -> None:
        self.nbytes = 0
        self.count = 0
        self.by_thread: defaultdict[int, list[tuple[Place, float, Buffer]]] = defaultdict(list)
        self.lock = threading.RLock()


_made: Final = _Made()


def place_above(frames: int) -> Place:
    """The place at which the program called C++, below the `frames` innermost frames."""
    frame = sys._getframe(frames + 1)  # noqa: SLF001  documented, to walk a stack
    return id(frame), frame.f_lasti


def made(buffer: Buffer, place: Place) -> None:
    """Keep a new buffer until an array holds it, and sweep if it is time."""
    buffers[buffer.address] = buffer
    _made.by_thread[threading.get_ident()].append((place, time.monotonic(), buffer))
    _made.nbytes += buffer.nbytes
    _made.count += 1
    if _made.nbytes > _EVERY_BYTES or _made.count > _EVERY_BUFFERS:
        sweep()


def begins(place: Place) -> None:
    """Take note that an execution begins at `place`: the last one there has ended."""
    mine = _made.by_thread[threading.get_ident()]
    if mine:
        mine[:] = [one for one in mine if one[0] != place]


def sweep() -> None:
    """Free every buffer that neither an array nor a running call holds."""
    with _made.lock:
        before = list(buffers)  # what is made from now on is no matter
        held = _held()
        if held is None:
            return
        kept = _in_calls(held)
        for address in before:
            if address not in held and address not in kept:
                buffers.pop(address, None)
        _made.nbytes = _made.count = 0


def _held() -> set[int] | None:
    """The handles that arrays of JAX hold; None where JAX has no client yet, or none any more."""
    client = private.client()
    if client is None:
        return None
    found: set[int] = set()
    for array in client.live_arrays():
        if not array.is_deleted():
            found.update(one.unsafe_buffer_pointer() for one in private.shards(array))
    return found


def _in_calls(held: set[int]) -> set[int]:
    """The handles that a running call may hold; forgets buffers that arrays hold by now."""
    running = _running_places()
    oldest = time.monotonic() - _YOUNG_S
    for thread, entries in list(_made.by_thread.items()):
        entries[:] = [
            one
            for one in entries
            if one[2].address not in held and one[0] in running.get(thread, ()) and one[1] > oldest
        ]
        if not entries:
            _made.by_thread.pop(thread, None)
    return {one[2].address for entries in _made.by_thread.values() for one in entries}


def _running_places() -> dict[int, set[Place]]:
    """The places at which each thread has called something."""
    found: dict[int, set[Place]] = {}
    for thread, innermost in sys._current_frames().items():  # noqa: SLF001  documented
        frame: FrameType | None = innermost
        places = found.setdefault(thread, set())
        while frame is not None:
            places.add((id(frame), frame.f_lasti))
            frame = frame.f_back
    return found
