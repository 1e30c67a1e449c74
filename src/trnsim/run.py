"""One call from a kernel to everything that trnsim says of it: `trnsim.run`.

From its third call on with tensors of the same shapes a kernel is executed from what was kept of
the second, without calling its function, where nothing that it reads can have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from trnsim import arch
from trnsim.errors import BadInput
from trnsim.hazards import LoopWatcher, RaceDetector
from trnsim.program import Team, check_capacity, current_core, has_current_core
from trnsim.timing import Scheduler, Timeline, replay_together

if TYPE_CHECKING:
    from pathlib import Path

    from trnsim.profile.summary import Summary
    from trnsim.program import Checked, Observer, Program


class Repetition(Protocol):
    """One call of a kernel that may come again, as it was."""

    def repeat(self) -> Run | None:
        """Its run from what earlier ones kept; None where the kernel has to be traced."""
        ...

    def watching(self, team: Team) -> AbstractContextManager[None]:
        """Inside, `team` traces the kernel."""
        ...

    def keep(self, team: Team, run: Run) -> None:
        """The kernel has been traced: what it did."""


@runtime_checkable
class Launchable(Protocol):
    """What a front end gives `run`: a kernel that can issue its instructions to a core."""

    @property
    def title(self) -> str:
        """The kernel's name for people."""
        ...

    @property
    def cores(self) -> int:
        """NeuronCores that run it together (the LNC degree)."""
        ...

    def launch(self, team: Team, args: Sequence[Any], kwargs: Mapping[str, Any]) -> object:
        """Issue the kernel's instructions; its outputs as the caller's kind of array."""
        ...

    def repetition(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], conditions: tuple[Hashable, ...]
    ) -> Repetition | None:
        """A call with values under equal conditions that may come again, if this one may."""
        ...


@dataclass(frozen=True)
class Run:
    """What a kernel did.

    Attributes:
        title: the kernel's name.
        target: the chip that it ran for.
        outputs: what the kernel returned, as the kind of array that went in.
        timelines: what each core did, and when.
        races: what two cores did to the same bytes with no order, where `races="warn"` let it.
        overfull: what SBUF or PSUM had no room for, where `capacity="warn"` let it.
        carried: dependences between iterations that a loop denies.
    """

    title: str
    target: arch.Target
    outputs: Any
    timelines: tuple[Timeline, ...]
    races: tuple[str, ...] = ()
    overfull: tuple[str, ...] = ()
    carried: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Everything that was let pass although it is at the user's risk."""
        return self.races + self.overfull + self.carried

    @property
    def timeline(self) -> Timeline:
        """The core that took longest: when each of its instructions happened."""
        return max(self.timelines, key=lambda timeline: timeline.total_time_s)

    @property
    def program(self) -> Program:
        """The instructions of the core that took longest."""
        return self.timeline.program

    @property
    def total_time_s(self) -> float:
        """Estimated time on the chip, launch included."""
        return self.timeline.total_time_s

    @property
    def summary(self) -> Summary:
        """What bound the kernel, how busy each engine was, and how sure the estimate is."""
        return self._summary

    @cached_property
    def _summary(self) -> Summary:
        from trnsim.profile.summary import summarize  # noqa: PLC0415  a kernel alone needs none

        return summarize(self.timeline)

    def report(self, path: str | Path) -> Path:
        """Write the run's HTML page to `path` and return where it lies."""
        from trnsim.profile.report import write_page  # noqa: PLC0415  as above
        from trnsim.profile.stored import report_of  # noqa: PLC0415  as above

        return write_page(report_of([self]), path)


def run(
    kernel: Launchable | object,
    *args: Any,
    target: str = "trn2",
    numerics: bool = True,
    races: Literal["raise", "warn"] = "raise",
    capacity: Literal["raise", "warn"] = "raise",
    kernel_kwargs: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> Run:
    """Run `kernel` on an emulated NeuronCore: its values, its instructions and its time.

    Args:
        kernel: an `@nki.jit` kernel.
        *args: its arguments; numpy and torch arrays become tensors in HBM.
        target: "trn1", "inf2", "trn2" or "trn3".
        numerics: False for the same instructions and times without values.
        races: "warn" reports data races between two cores as warnings.
        capacity: "warn" reports as warnings what SBUF or PSUM has no room for. AWS's compiler moves
            it to HBM and back (memory-hierarchy-overview.rst); the time of that is not estimated.
        kernel_kwargs: keyword arguments whose names `run` itself uses.
        **kwargs: the kernel's other keyword arguments.

    Raises:
        EmulatorError: what the chip or its compiler would refuse, at the kernel's own line.
    """
    if not isinstance(kernel, Launchable):
        raise BadInput(
            f"run was given {kernel!r}; legal: a kernel",
            fix="decorate the function with @nki.jit",
        )
    if has_current_core():
        current_core().cannot_repeat()  # each run inside a kernel is one of its own
    chip = arch.target(target)
    given = {**kwargs, **(kernel_kwargs or {})}
    call = kernel.repetition(args, given, (chip.name, races, capacity)) if numerics else None
    if call is not None and (repeated := call.repeat()) is not None:
        return _collected(repeated)
    core = chip.core if kernel.cores == 1 else chip.core.paired()
    schedulers = [Scheduler(core) for _ in range(kernel.cores)]
    observers = _observers(schedulers, f"{kernel.title} on {chip.name}")
    detector = RaceDetector(kernel.cores, is_strict=races == "raise") if kernel.cores > 1 else None
    loops = [LoopWatcher() for _ in range(kernel.cores)]
    team = Team(core, observers, has_values=numerics, watcher=detector, loops=loops)
    with call.watching(team) if call is not None else nullcontext():
        outputs = kernel.launch(team, args, given)
    programs = [context.program for context in team.contexts]
    if len(programs) > 1:  # only now is it known when each core comes to where they meet
        schedulers = replay_together(programs, core)
    is_strict = capacity == "raise"
    overfull = tuple(str(e) for p in programs for e in check_capacity(p, is_strict=is_strict))
    timelines = tuple(Timeline(p, s, programs) for p, s in zip(programs, schedulers, strict=True))
    found = tuple(map(str, detector.races)) if detector is not None else ()
    # Both cores of a logical core run the same lines.
    carried = tuple(dict.fromkeys(text for watcher in loops for text in watcher.found))
    result = Run(kernel.title, chip, outputs, timelines, found, overfull, carried)
    if call is not None:
        call.keep(team, result)
    return _collected(result)


def _observers(schedulers: Sequence[Scheduler], title: str) -> list[Observer]:
    """The schedulers, the first of which says how far it is where someone wants to know."""
    watch = _watch.get()
    first = schedulers[0] if watch is None else _Watched(schedulers[0], watch, title)
    return [first, *schedulers[1:]]


class _Watched:
    """An observer that says every now and then how far the program is."""

    def __init__(self, observer: Observer, tell: Callable[[str], None], title: str) -> None:
        self._observer = observer
        self._tell = tell
        self._title = title

    def issued(self, index: int, checked: Checked, predecessors: Sequence[int]) -> None:
        """Hand on the instruction."""
        self._observer.issued(index, checked, predecessors)
        if index % _WATCHED_EVERY == 0:
            self._tell(f"{self._title}: {index:,} instructions")


_WATCHED_EVERY = 1024
_watch: ContextVar[Callable[[str], None] | None] = ContextVar("trnsim_watch", default=None)


@contextmanager
def watching(tell: Callable[[str], None]) -> Generator[None]:
    """Calls `tell` every thousand instructions of the runs inside, with how far they are."""
    token = _watch.set(tell)
    try:
        yield
    finally:
        _watch.reset(token)


_collector: ContextVar[list[Run] | None] = ContextVar("trnsim_runs", default=None)


def _collected(run: Run) -> Run:
    collector = _collector.get()
    if collector is not None:
        collector.append(run)
    return run


@contextmanager
def collecting() -> Generator[list[Run]]:
    """Every run that happens inside, in order."""
    runs: list[Run] = []
    token = _collector.set(runs)
    try:
        yield runs
    finally:
        _collector.reset(token)
