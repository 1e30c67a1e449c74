"""Events: the end of the computation of arrays, or its error.

Most calls are done when they return: these share one event, which is always ready. Another event
waits for arrays of the private client (XLA's, of the CPU, which computes them); a thread waits
with it where JAX wants to be called back.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from functools import cache
from queue import SimpleQueue
from typing import Any, Final

from trnsim.device.steps import steps
from trnsim.jax.host_client import HostArray, error_of
from trnsim.jax.pjrt.errors import new_error
from trnsim.jax.pjrt.handles import Handle, Ring, words
from trnsim.jax.pjrt.structs import word_places
from trnsim.jax.pjrt.table import Call, error_handle, quick, slot

_OnReady: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_EVENTS_KEPT: Final = 1 << 16
"""Number of the latest events that are kept; earlier handles mean `_DROPPED_EVENT`."""


class PjrtEvent:
    """The end of the computation of `arrays`, with the error that it raised, or None."""

    def __init__(self, arrays: Sequence[HostArray], error: BaseException | None = None) -> None:
        self._arrays = arrays
        self._error = error
        self._is_done = error is not None
        self._callbacks: list[tuple[int, int]] = []
        self._lock = threading.Lock()

    def is_ready(self) -> bool:
        """True if the computation has ended, with or without an error."""
        return self._is_done or all(array.is_ready() for array in self._arrays)

    def wait(self) -> BaseException | None:
        """The error with which the computation ended, or None, once it has ended."""
        if not self._is_done:
            self._error = error_of(self._arrays)
            self._is_done, self._arrays = True, ()
        return self._error

    def call_back(self, function: int, argument: int) -> None:
        """Call a function of C with the error, at once or when the computation has ended."""
        with self._lock:
            is_first = not self._callbacks
            self._callbacks.append((function, argument))
        if self.is_ready():
            self.fire()
        elif is_first:
            _waiter.add(self)

    def fire(self) -> None:
        """Wait, then call every function that has not been called."""
        error = self.wait()
        with self._lock:
            callbacks, self._callbacks = self._callbacks, []
        for function, argument in callbacks:
            _OnReady(function)(None if error is None else new_error(error), argument)


class _Waiter:
    """A thread that waits for events in turn."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[PjrtEvent | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def add(self, event: PjrtEvent) -> None:
        """Fire an event when it is ready."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="neuron", daemon=True)
                self._thread.start()
        self._queue.put(event)

    def _run(self) -> None:
        while (event := self._queue.get()) is not None:
            event.fire()

    def stop(self) -> None:
        """Fire the events that are left, and end the thread."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._queue.put(None)
            thread.join()


_waiter: Final = _Waiter()
_events: Final = Ring[PjrtEvent](_EVENTS_KEPT)
_ready_handle: Final = Handle()
READY: Final = _ready_handle.address
"""The event of every call that is done when it returns."""


def drain() -> None:
    """Wait for every event that JAX waits for."""
    _waiter.stop()


def event_of(arrays: Sequence[HostArray]) -> int:
    """The handle of the event at which `arrays` are computed."""
    try:
        for array in arrays:
            if not array.is_deleted():
                if not array.is_ready():
                    return _events.add(PjrtEvent(arrays))
                array.block_until_ready()  # it is ready: only an error of its may come
    except Exception as error:  # noqa: BLE001  it belongs to the reader of the array
        return failed_event(error)
    return READY


def failed_event(error: BaseException) -> int:
    """The handle of an event that ended with an error."""
    return _events.add(PjrtEvent((), error))


def _event(args: Any) -> PjrtEvent:
    """The event of a call; an event that the ring has dropped ended long ago."""
    return _events.get(args.event) or _DROPPED_EVENT


_DROPPED_EVENT: Final = PjrtEvent(())


@slot("Event_IsReady")
def _is_ready(args: Any) -> None:
    args.is_ready = args.event == READY or _event(args).is_ready()


@slot("Event_Await")
def _await(args: Any) -> None:
    steps.note_wait()
    error = None if args.event == READY else _event(args).wait()
    if error is not None:
        raise error


@slot("Event_Error")
def _error(args: Any) -> None:
    _await(args)


_EVENT_AT, _CALLBACK_AT, _ARGUMENT_AT = word_places(
    "Event_OnReady_Args", "event", "callback", "user_arg"
)
_function_at: Final = cache(_OnReady)
"""A function of C by its address."""


@quick("Event_OnReady")
def _quick_on_ready(call_slot: Call) -> Call:
    def call(address: int) -> int:
        try:
            at = address >> 3
            if words[at + _EVENT_AT] != READY:
                return call_slot(address)
            _function_at(words[at + _CALLBACK_AT])(None, words[at + _ARGUMENT_AT])
        except BaseException as error:  # noqa: BLE001  an exception cannot pass through C
            return error_handle(error)
        return 0

    return call


@slot("Event_OnReady")
def _on_ready(args: Any) -> None:
    if args.event == READY:
        _OnReady(args.callback)(None, args.user_arg)
    else:
        _event(args).call_back(args.callback, args.user_arg)
