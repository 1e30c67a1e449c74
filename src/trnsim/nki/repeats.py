"""Calls of a kernel that come again: traced twice at most, then executed as a compiled program is.

A kernel for a chip is compiled once and run many times; its instructions depend on the shapes of
its arguments, not on their values. Here the first call is traced, the second is traced and kept,
and from the third on the kept program is executed: same checks, same values, same time. A call
comes again where its arguments but for the tensors' values, the chip, the modes and the kernel's
surroundings are the same; what cannot be shown to come again is traced as if it were the first.
"""

from __future__ import annotations

import enum
import sys
from collections import OrderedDict
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, replace
from threading import Lock
from types import FunctionType
from typing import IO, TYPE_CHECKING, Any, Final, cast

import numpy as np

from trnsim.dtypes import Dtype
from trnsim.memory import Storage
from trnsim.nki.boundary import Boundary, like
from trnsim.nki.environment import transposes_on_tensor_engine
from trnsim.nki.language.objects import NKIObject
from trnsim.nki.notices import is_simulator
from trnsim.nki.operators import Binary, Unary
from trnsim.nki.precision import is_widening
from trnsim.nki.surroundings import Surroundings, Unforeseeable
from trnsim.nki.tensor import NkiTensor
from trnsim.program import Capture, CoreContext, Executable

if TYPE_CHECKING:
    from trnsim.program import Team
    from trnsim.run import Run

_MAX_CALLS: Final = 32
"""Different calls of a kernel that are remembered; the least recent is forgotten."""

_CONSTANTS: Final = (bool, int, str, enum.Enum, Dtype, np.dtype, type)
_TENSORS: Final = ("torch", "jax", "jaxlib")


@dataclass(frozen=True)
class _Kept:
    """A program that may be executed again.

    Attributes:
        surroundings: what the kernel read when it was traced.
        executable: its instructions.
        run: what it did, without its outputs.
        result: what the kernel returned, on storages without bytes.
        given: the serials of its inputs.
        returned: the storages of its results that are no inputs, without bytes.
    """

    surroundings: Surroundings
    executable: Executable
    run: Run
    result: Any
    given: list[int]
    returned: list[Storage]


@dataclass
class _Known:
    """What is known of calls with one signature.

    Attributes:
        count: how many have been traced.
        kept: the program, once it was captured.
        is_hopeless: whether it has to be traced each time.
    """

    count: int = 0
    kept: _Kept | None = None
    is_hopeless: bool = False


class Calls:
    """The calls of one kernel.

    Args:
        function: the kernel's own.
        bind: its arguments by name.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        bind: Callable[[Sequence[Any], Mapping[str, Any]], dict[str, Any]],
    ) -> None:
        self._function = function
        self.bind = bind
        self._known: OrderedDict[Hashable, _Known] = OrderedDict()
        self._lock = Lock()

    def find(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], conditions: tuple[Hashable, ...]
    ) -> Call | None:
        """A call that may come again; None where nothing can be known of it."""
        if sys.gettrace() is not None:  # a debugger wants to see it
            return None
        modes = (is_simulator(), is_widening(), transposes_on_tensor_engine())
        named: set[object] = set()
        try:
            key = (conditions, modes, _signature((args, kwargs), named))
        except (Unforeseeable, RecursionError):  # objects may hold themselves
            return None
        with self._lock:
            known = self._known.setdefault(key, _Known())
            self._known.move_to_end(key)
            if len(self._known) > _MAX_CALLS:
                self._known.popitem(last=False)
        return None if known.is_hopeless else Call(self, known, args, kwargs, named)

    def surroundings(self, named: Iterable[object]) -> Surroundings | None:
        """What the kernel and what its arguments bring along read; None where that may change."""
        with suppress(Unforeseeable):
            return Surroundings(self._function, *named)
        return None


class Call:
    """One call (a `trnsim.run.Repetition`)."""

    def __init__(
        self,
        calls: Calls,
        known: _Known,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        named: Iterable[object],
    ) -> None:
        self._calls = calls
        self._known = known
        self._args = args
        self._kwargs = kwargs
        self._named = named
        self._signature: Hashable = None
        self._surroundings: Surroundings | None = None

    def repeat(self) -> Run | None:
        """The kept program's run on these arguments; None where the kernel has to be traced."""
        kept = self._known.kept
        if kept is None:
            return None
        if not kept.surroundings.are_unchanged():
            self._known.kept = None
            return None
        boundary = Boundary(CoreContext(kept.run.program.core))
        for name, value in self._calls.bind(self._args, self._kwargs).items():
            boundary.enter(name, value)
        inputs = [tensor.storage for tensor in boundary.entered]
        given = [storage.data for storage in inputs if storage.data is not None]
        results = kept.executable.execute(given)
        if results is None:
            return None
        boundary.write_back()
        now = dict(zip(kept.given, inputs, strict=True))
        for storage, data in zip(kept.returned, results, strict=True):
            now[storage.serial] = storage.holding(data)
        return replace(kept.run, outputs=boundary.leave(_moved(kept.result, now)))

    @contextmanager
    def watching(self, team: Team) -> Generator[None]:
        """`team` traces the call inside: from the second time on, what it does is captured."""
        self._known.count += 1
        if self._known.count == 1:
            yield
            return
        self._surroundings = self._calls.surroundings(self._named)
        self._known.is_hopeless = self._surroundings is None
        if self._known.is_hopeless:
            yield
            return
        self._signature = _signature((self._args, self._kwargs), set())
        capture = team.contexts[0].capture = Capture()
        with redirect_stdout(cast("IO[str]", _Output(sys.stdout, capture))):
            yield

    def keep(self, team: Team, run: Run) -> None:
        """The call has been traced: its run."""
        capture = team.contexts[0].capture
        if capture is not None:
            self._known.kept = self._kept(capture, run)
            self._known.is_hopeless = self._known.kept is None

    def _kept(self, capture: Capture, run: Run) -> _Kept | None:
        """The captured program; None where it cannot be executed again."""
        surroundings = self._surroundings
        if surroundings is None or not surroundings.are_unchanged():  # the kernel changed them
            return None
        try:
            if _signature((self._args, self._kwargs), set()) != self._signature:
                return None
            tensors = list(_tensors(capture.result))
        except Unforeseeable:
            return None
        bare = {tensor.storage.serial: tensor.storage.bare() for tensor in tensors}
        returned = [bare[serial] for serial in bare.keys() - set(capture.entered)]
        results = [storage.serial for storage in returned]
        executable = Executable.of(run.program, capture, capture.entered, results)
        if executable is None:
            return None
        result = _moved(capture.result, bare)
        without = replace(run, outputs=None)
        return _Kept(surroundings, executable, without, result, capture.entered, returned)


class _Output:
    """The program's output; a capture is given up where anything is printed."""

    def __init__(self, stream: Any, capture: Capture) -> None:
        self._stream = stream
        self._capture = capture

    def write(self, text: str) -> int:
        """Hand on the text."""
        self._capture.give_up()
        if self._stream is not None:  # there is none without a console
            self._stream.write(text)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _signature(value: Any, named: set[object], *, is_entered: bool = True) -> Hashable:
    """All of an argument that a kernel's instructions may depend on.

    Args:
        value: the argument, or a part of it.
        named: gets the classes and functions that it brings along.
        is_entered: whether an array here becomes a tensor, whose values the kernel cannot see.

    Raises:
        Unforeseeable: for an argument that may hold anything.
    """
    kind = type(value)
    found: Hashable
    if isinstance(value, tuple | list):
        found = tuple(_signature(item, named, is_entered=is_entered) for item in value)
    elif isinstance(value, dict):
        items = value.items()
        found = tuple((key, _signature(x, named, is_entered=is_entered)) for key, x in items)
    elif _is_tensor(value) and is_entered:
        found = tuple(value.shape), str(value.dtype)
    elif isinstance(value, float):
        found = float(value).hex()  # -0.0 is not 0.0
    elif isinstance(value, np.generic):
        found = value.tobytes()
    elif value is None or isinstance(value, _CONSTANTS) or _is_operation(value):
        found = value
    elif isinstance(value, FunctionType):
        named.add(value)
        found = value
    else:
        if not getattr(value, "__dict__", None) or _is_tensor(value):
            raise Unforeseeable(f"{value!r:.60}")
        named.add(kind)
        is_entered &= isinstance(value, NKIObject)
        found = _signature(vars(value), named, is_entered=is_entered)
    return kind, found


def _is_operation(value: object) -> bool:
    """Whether an argument is one of ours that never changes, such as `nl.exp`."""
    return isinstance(value, Unary | Binary)


def _is_tensor(value: Any) -> bool:
    is_torch_or_jax = type(value).__module__.partition(".")[0] in _TENSORS
    return isinstance(value, np.ndarray) or (
        is_torch_or_jax and hasattr(value, "shape") and hasattr(value, "dtype")
    )


def _tensors(result: Any) -> Iterator[NkiTensor]:
    """The tensors that a kernel returned.

    Raises:
        Unforeseeable: where it returned something else than tensors, numbers and their tuples.
    """
    if isinstance(result, tuple | list):
        for item in result:
            yield from _tensors(item)
    elif isinstance(result, NkiTensor):
        yield result
    elif not isinstance(result, bool | int | float | str | None):
        raise Unforeseeable(f"{result!r:.60}")


def _moved(result: Any, storages: Mapping[int, Storage]) -> Any:
    """What a kernel returned, its tensors on other storages."""
    if isinstance(result, tuple | list):
        return like(result, [_moved(item, storages) for item in result])
    if not isinstance(result, NkiTensor):
        return result
    storage = storages[result.storage.serial]
    return NkiTensor.laid_out(storage, result.dtype, result.layout, result.buffer)
