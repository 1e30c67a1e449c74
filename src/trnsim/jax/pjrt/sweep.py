"""The sweep: buffers that no array of JAX holds any more are freed.

C++ frees a buffer through a function that cannot be Python's (`trnsim.jax.pjrt.table`), so dead
buffers are inferred: JAX lists its live arrays, and an array has its handle. A buffer that is in no
array is dead, unless only C++ may hold it, which it does until the call that made the buffer has
returned. A call is identified by its place: the innermost frame of Python below it and the
instruction there. C++ may hold buffers that a function of JAX made until that function returns, as
it does the results of `execute_sharded`: there a place is the frame, at any instruction.

The device sweeps when it has allocated much memory since the last sweep, before it tells how much
memory is in use, and before it refuses memory.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from threading import RLock, get_ident
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING, Final, TypeAlias

from trnsim.jax import private

if TYPE_CHECKING:
    from trnsim.jax.pjrt.buffers import Buffer

Place: TypeAlias = tuple[int, int]
"""A frame and an instruction in it, at which C++ was called."""

buffers: Final[dict[int, Buffer]] = {}
"""Every buffer that is not known to be dead, by its handle."""

_ANYWHERE: Final = -1
"""In a place: at any instruction of the frame."""
_IN_NO_FRAME: Final = (0, 0)
"""The place of a thread of C++, in which no Python runs."""
_BYTES_BETWEEN_SWEEPS: Final = 256 << 20
_LEAST_BUFFERS_BETWEEN_SWEEPS: Final = 1024
_ENTRIES_BETWEEN_PRUNINGS: Final = 1024
"""Number of new entries of a place after which its old entries are dropped."""
_YOUNG_S: Final = 60.0
"""Time until a buffer that was never in an array is dropped at a place that is called again."""


_Entries: TypeAlias = list[tuple[float, int]]
"""Buffers that calls at a place have made: time and handle of each."""


class _Ledger:
    """Buffers made since the last sweep: bytes, number, and entries by thread and place.

    Attributes:
        kept_buffers: number of buffers that the last sweep left. The next sweep waits for as many
            new ones, so that its time for each new buffer is bounded.
    """

    def __init__(self) -> None:
        self.nbytes = 0
        self.count = 0
        self.kept_buffers = 0
        self.by_thread: defaultdict[int, dict[Place, _Entries]] = defaultdict(dict)
        self.lock = RLock()


_ledger: Final = _Ledger()


def place_above(frames: int) -> Place:
    """The place at which the program called C++, below the `frames` innermost frames."""
    try:
        frame = sys._getframe(frames + 1)  # noqa: SLF001  documented, to walk a stack
    except ValueError:
        return _IN_NO_FRAME
    place = id(frame), frame.f_lasti
    if frame.f_trace is None:  # a new frame: an earlier one with this id has ended
        frame.f_trace = _frame_mark
        begin_call(place)
    return place


def _frame_mark(frame: FrameType, event: str, arg: object) -> None:
    """The mark of a frame that has called C++; where a program is traced it does nothing."""
    del frame, event, arg


def track_buffer(buffer: Buffer, place: Place) -> None:
    """Keep a new buffer until an array holds it, and sweep if it is time."""
    entries = _ledger.by_thread[get_ident()].setdefault(place, [])
    entries.append((monotonic(), buffer.address))  # first: another thread may sweep
    buffers[buffer.address] = buffer
    _ledger.nbytes += buffer.nbytes
    _ledger.count += 1
    if len(entries) % _ENTRIES_BETWEEN_PRUNINGS == 0:
        oldest_s = monotonic() - _YOUNG_S
        entries[:] = [entry for entry in entries if entry[0] > oldest_s]
    _sweep_if_due()


def track_results(results: Sequence[Buffer], place: Place) -> list[int]:
    """The handles of all new buffers of the call at `place`, which ends; a sweep if it is due.

    The buffers of the last call at that place are forgotten, as by `begin_call`.
    """
    ledger, time_s = _ledger, monotonic()
    entries: _Entries = []
    handles: list[int] = []
    ledger.by_thread[get_ident()][place] = entries
    for buffer in results:
        address = buffer.address
        handles.append(address)
        entries.append((time_s, address))  # first: another thread may sweep
        buffers[address] = buffer
        ledger.nbytes += buffer.type.nbytes
        ledger.count += 1
    if ledger.count > _LEAST_BUFFERS_BETWEEN_SWEEPS or ledger.nbytes > _BYTES_BETWEEN_SWEEPS:
        _sweep_if_due()
    return handles


def _sweep_if_due() -> None:
    """Sweep if much was made since the last time."""
    if _ledger.nbytes > _BYTES_BETWEEN_SWEEPS or _ledger.count > max(
        _LEAST_BUFFERS_BETWEEN_SWEEPS, _ledger.kept_buffers
    ):
        _forget_earlier_calls()
        sweep()


def begin_call(place: Place) -> None:
    """Note that a call begins at `place`, so that the last call there has ended."""
    _ledger.by_thread[get_ident()].pop(place, None)


def _forget_earlier_calls() -> None:
    """Forget the buffers of earlier calls of this thread; no other thread writes its entries."""
    by_place = _ledger.by_thread[get_ident()]
    places = _places(sys._getframe())  # noqa: SLF001  documented, to walk a stack
    oldest_s = monotonic() - _YOUNG_S
    for place in [place for place in by_place if not _is_running(place, places)]:
        if place != _IN_NO_FRAME or _last_made_s(by_place[place]) < oldest_s:
            by_place.pop(place)


def _last_made_s(entries: _Entries) -> float:
    """The monotonic time in seconds at which the last of the entries was made; 0 without any."""
    return entries[-1][0] if entries else 0.0


def sweep() -> None:
    """Free every buffer that neither a running call nor an array holds.

    Calls are read before arrays, as other threads go on: the buffer of a call that has ended by
    then is in an array by the time that arrays are read.
    """
    with _ledger.lock:
        snapshot = list(buffers)  # later buffers do not matter
        call_handles = _call_handles()
        array_handles = _array_handles()
        if array_handles is None:
            return
        for address in snapshot:
            if address not in array_handles and address not in call_handles:
                buffer = buffers.pop(address, None)
                if buffer is not None:
                    buffer.free()
        _ledger.nbytes = _ledger.count = 0
        _ledger.kept_buffers = len(buffers)


def _array_handles() -> set[int] | None:
    """The handles that arrays of JAX hold; None without a client of JAX."""
    client = private.client()
    if client is None:
        return None
    handles: set[int] = set()
    for array in client.live_arrays():
        if not array.is_deleted():
            handles.update(shard.unsafe_buffer_pointer() for shard in private.shards(array))
    return handles


def _call_handles() -> set[int]:
    """The handles that a running call may hold."""
    running_places = _running_places()
    oldest_s = monotonic() - _YOUNG_S
    handles: set[int] = set()
    for thread, by_place in list(_ledger.by_thread.items()):
        places = {_IN_NO_FRAME, *running_places.get(thread, ())}
        for place, entries in list(by_place.items()):
            if _is_running(place, places):
                handles.update(address for time_s, address in list(entries) if time_s > oldest_s)
        if (
            thread not in running_places
            and max(map(_last_made_s, list(by_place.values())), default=0) < oldest_s
        ):
            _ledger.by_thread.pop(thread, None)  # it has ended
    return handles


def _running_places() -> dict[int, set[Place]]:
    """The places at which each thread has called something.

    No frame is kept in a variable here: it would keep itself, and all that its callers hold.
    """
    return {
        thread: _places(frame)
        for thread, frame in sys._current_frames().items()  # noqa: SLF001  documented
    }


def _places(frame: FrameType | None) -> set[Place]:
    """The places of a frame and its callers."""
    places: set[Place] = set()
    while frame is not None:
        is_jax = frame.f_code.co_filename.startswith(private.FOLDER)
        places.add((id(frame), _ANYWHERE if is_jax else frame.f_lasti))
        frame = frame.f_back
    return places


def _is_running(place: Place, places: set[Place]) -> bool:
    """True if a call at `place` may be running, or if C++ alone may hold its buffers."""
    return place in places or (place[0], _ANYWHERE) in places
