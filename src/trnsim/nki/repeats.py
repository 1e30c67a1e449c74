"""Calls of a kernel that come again: traced twice at most, then executed as a compiled program is.

A kernel for a chip is compiled once and run many times; its instructions depend on the shapes of
its arguments, not on their values. Here the first call is traced, the second is traced and kept,
and from the third on the kept program is executed: same checks, same values, same time. A call
comes again where its arguments but for the tensors' values, the chip, the modes and the kernel's
surroundings are the same; what cannot be shown to come again is traced as if it were the first.
"""

from __future__ import annotations

import sys
import weakref
from collections import OrderedDict
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from trnsim.memory import Storage
from trnsim.nki.boundary import Boundary, like
from trnsim.nki.environment import transposes_on_tensor_engine
from trnsim.nki.notices import is_simulator
from trnsim.nki.precision import is_widening
from trnsim.nki.reads import Unforeseeable
from trnsim.nki.signature import Signature
from trnsim.nki.surroundings import PRINT, Surroundings
from trnsim.nki.tensor import NkiTensor
from trnsim.program import Capture, CoreContext, Executable
from trnsim.program.executable import MAX_BYTES

if TYPE_CHECKING:
    from trnsim.program import Team
    from trnsim.run import Run

_MAX_CALLS: Final = 32
"""Different calls of a kernel that are remembered; the least recent is forgotten."""


@dataclass(frozen=True)
class _Kept:
    """A program that may be executed again.

    Attributes:
        surroundings: what the kernel read when it was traced.
        which: the user's own objects among its arguments, where it knew them by name.
        executable: its instructions.
        run: what it did, without its outputs.
        result: what the kernel returned, on storages without bytes.
        given: the serials of its inputs.
        returned: the storages of its results that are no inputs, without bytes.
    """

    surroundings: Surroundings
    which: list[int]
    executable: Executable
    run: Run
    result: Any
    given: list[int]
    returned: list[Storage]


@dataclass(eq=False)
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


class _Budget:
    """What all kept programs take of the host's memory together; the least recent one goes."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self._kept: OrderedDict[weakref.ref[_Known], int] = OrderedDict()
        self._lock = Lock()

    def use(self, known: _Known, nbytes: int) -> None:
        """`known`'s program, of so many bytes, has been kept or executed."""
        with self._lock:
            self._kept[weakref.ref(known)] = nbytes
            self._kept.move_to_end(weakref.ref(known))
            for reference in [reference for reference in self._kept if reference() is None]:
                del self._kept[reference]
            total = sum(self._kept.values())
            while total > self.nbytes and len(self._kept) > 1:
                reference, freed = self._kept.popitem(last=False)
                total -= freed
                oldest = reference()
                if oldest is not None:
                    oldest.kept = None


budget: Final = _Budget(MAX_BYTES)


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
        signature = Signature()
        try:
            seen = signature.of((tuple(args), dict(kwargs)))
            key = (conditions, modes, seen)
            with self._lock:
                known = self._known.setdefault(key, _Known())
                self._known.move_to_end(key)
                if len(self._known) > _MAX_CALLS:
                    self._known.popitem(last=False)
        except Exception:  # noqa: BLE001  a class of the user's may raise anything
            return None
        return None if known.is_hopeless else Call(self, known, args, kwargs, signature, seen)

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
        signature: Signature,
        seen: Hashable,
    ) -> None:
        self._calls = calls
        self._known = known
        self._args = args
        self._kwargs = kwargs
        self._signature = signature
        self._seen = seen
        self._surroundings: Surroundings | None = None

    def repeat(self) -> Run | None:
        """The kept program's run on these arguments; None where the kernel has to be traced."""
        kept = self._known.kept
        if kept is None:
            return None
        if not kept.surroundings.are_unchanged():
            self._known.kept = None
            return None
        if kept.surroundings.which(self._signature.objects) != kept.which:
            return None
        boundary = Boundary(CoreContext(kept.run.program.core))
        for name, value in self._calls.bind(self._args, self._kwargs).items():
            boundary.enter(name, value)
        inputs = [tensor.storage for tensor in boundary.entered]
        given = [storage.data for storage in inputs if storage.data is not None]
        results = kept.executable.execute(given)
        if results is None:
            return None
        budget.use(self._known, kept.executable.nbytes)
        boundary.write_back()
        now = dict(zip(kept.given, inputs, strict=True))
        for storage, data in zip(kept.returned, results, strict=True):
            now[storage.serial] = storage.holding(data)
        return replace(kept.run, outputs=boundary.leave(_moved(kept.result, now)))

    @contextmanager
    def watching(self, team: Team) -> Generator[None]:
        """`team` traces the call inside: from the second time on, what it does is captured."""
        self._known.count += 1
        if self._known.count == 1 or sys.getprofile() is not None:
            yield
            return
        self._surroundings = self._calls.surroundings(self._signature.named.values())
        self._known.is_hopeless = self._surroundings is None
        if self._surroundings is None:
            yield
            return
        capture = team.contexts[0].capture = Capture()
        with _noticing_print(capture) if self._surroundings.may_print else nullcontext():
            yield

    def keep(self, team: Team, run: Run) -> None:
        """The call has been traced: its run."""
        capture = team.contexts[0].capture
        if capture is not None:
            kept = self._known.kept = self._kept(capture, run)
            self._known.is_hopeless = kept is None
            if kept is not None:
                budget.use(self._known, kept.executable.nbytes)

    def _kept(self, capture: Capture, run: Run) -> _Kept | None:
        """The captured program; None where it cannot be executed again."""
        surroundings = self._surroundings
        if surroundings is None or not surroundings.are_unchanged():  # the kernel changed them
            return None
        try:
            if Signature().of((tuple(self._args), dict(self._kwargs))) != self._seen:
                return None  # the kernel changed its arguments
            tensors = list(_tensors(capture.result))
        except (Unforeseeable, RecursionError):
            return None
        bare = {tensor.storage.serial: tensor.storage.bare() for tensor in tensors}
        returned = [bare[serial] for serial in bare.keys() - set(capture.entered)]
        results = [storage.serial for storage in returned]
        executable = Executable.of(run.program, capture, capture.entered, results)
        if executable is None:
            return None
        result = _moved(capture.result, bare)
        return _Kept(
            surroundings,
            surroundings.which(self._signature.objects),
            executable,
            replace(run, outputs=None),
            result,
            capture.entered,
            returned,
        )


@contextmanager
def _noticing_print(capture: Capture) -> Generator[None]:
    """A capture is given up where the code inside prints."""

    def called(_: object, event: str, function: object) -> None:
        if event == "c_call" and function is PRINT:
            capture.give_up()
        if capture.is_given_up:
            sys.setprofile(None)

    sys.setprofile(called)
    try:
        yield
    finally:
        sys.setprofile(None)


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
