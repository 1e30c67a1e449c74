"""One call from a kernel to everything that trnsim says of it: `trnsim.run`."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from trnsim import arch
from trnsim.errors import BadInput
from trnsim.hazards import LoopWatcher, RaceDetector
from trnsim.program import Call, Team, check_capacity, current_core, has_current_core
from trnsim.timing import Scheduler, Timeline, replay_together

if TYPE_CHECKING:
    from pathlib import Path

    from trnsim.profile.analysis.summary import Summary
    from trnsim.program import Capture, Program, Records


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

    @property
    def records(self) -> Records | None:
        """What is kept of its calls, if anything is."""
        ...

    def launch(self, team: Team, args: Sequence[Any], kwargs: Mapping[str, Any]) -> object:
        """Issue the kernel's instructions; its outputs as the caller's kind of array."""
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
        doubtful: writes of two cores to the same bytes with no order, which wrote equal ones for
            these inputs, or which a run without values cannot judge.
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
    doubtful: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Everything that was let pass although it is at the user's risk."""
        return self.races + self.doubtful + self.overfull + self.carried

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
        from trnsim.profile.analysis.summary import summarize  # noqa: PLC0415  a kernel alone needs none

        return summarize(self.timeline)

    def report(self, path: str | Path) -> Path:
        """Write the run's HTML page to `path` and return where it lies."""
        from trnsim.profile.formats.stored import report_of  # noqa: PLC0415  as above
        from trnsim.profile.report import write_page  # noqa: PLC0415  as above

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
        target: the chip, a name of `arch.TARGETS`: "trn2".
        numerics: False for the same instructions and times without values.
        races: "raise", or "warn" to report data races between two cores as warnings.
        capacity: "raise", or "warn" to report as warnings what SBUF or PSUM has no room for. AWS's
            compiler moves it to HBM and back (memory-hierarchy-overview.rst); the time of that is
            not estimated.
        kernel_kwargs: keyword arguments whose names `run` itself uses.
        **kwargs: the kernel's other keyword arguments.

    Raises:
        BadInput: for another word than these, and for kernel[2] on a chip without logical cores.
        EmulatorError: what the chip or its compiler would refuse, at the kernel's own line.
    """
    if not isinstance(kernel, Launchable):
        raise BadInput(
            f"run was given {kernel!r}; legal: a kernel",
            fix="decorate the function with @nki.jit",
        )
    if has_current_core():
        current_core().refuse_capture("it runs another kernel by trnsim.run")
    given = {**kwargs, **(kernel_kwargs or {})}
    chip = arch.target(target)
    return collected(launch(kernel, args, given, chip, numerics, races, capacity))


def launch(
    kernel: Launchable,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    chip: arch.Target,
    numerics: bool = True,
    races: str = "raise",
    capacity: str = "raise",
    capture: Capture | None = None,
) -> Run:
    """`run` on a chip; a `capture` keeps the instructions to execute them again."""
    _check_strictness(races=races, capacity=capacity)
    core = chip.core if kernel.cores == 1 else arch.paired(chip)
    schedulers = [Scheduler(core) for _ in range(kernel.cores)]
    detector = RaceDetector(kernel.cores, is_strict=races == "raise") if kernel.cores > 1 else None
    loops = [LoopWatcher() for _ in range(kernel.cores)]
    call = None
    if kernel.cores == 1 and kernel.records is not None and capture is None:
        call = Call(kernel.records, (chip.name, capacity, numerics))
    team = Team(core, schedulers, has_values=numerics, watcher=detector, loops=loops, call=call)
    team.contexts[0].capture = capture
    team.contexts[0].tell = _progress(f"{kernel.title} on {chip.name}")
    outputs = kernel.launch(team, args, kwargs)
    # Both cores of a logical core run the same lines.
    carried = tuple(dict.fromkeys(text for watcher in loops for text in watcher.found))
    if call is not None and isinstance(call.outcome, Run):
        return replace(call.outcome, outputs=outputs, carried=carried)
    programs = [context.program for context in team.contexts]
    if len(programs) > 1:  # only now is it known when each core comes to where they meet
        schedulers = replay_together(programs, core)
    is_strict = capacity == "raise"
    overfull = tuple(str(e) for p in programs for e in check_capacity(p, is_strict=is_strict))
    timelines = tuple(Timeline(p, s, programs) for p, s in zip(programs, schedulers, strict=True))
    found = tuple(map(str, detector.races)) if detector is not None else ()
    doubtful = tuple(map(str, detector.doubtful)) if detector is not None else ()
    result = Run(kernel.title, chip, outputs, timelines, found, overfull, carried, doubtful)
    if call is not None:
        call.conclude(replace(result, outputs=None))
    return result


def _check_strictness(**given: object) -> None:
    """Refuse another word than "raise" or "warn" for what a run may be less strict about."""
    for name, word in given.items():
        if word not in _HOW_STRICT:
            raise BadInput(
                f'run({name}={word!r}); legal: "raise", "warn"',
                fix=f'leave {name} out, or pass {name}="warn" to be told and go on',
            )


_HOW_STRICT = ("raise", "warn")
_watch: ContextVar[Callable[[str], None] | None] = ContextVar("trnsim_watch", default=None)


def _progress(title: str) -> Callable[[int], None] | None:
    """Says how many instructions have been issued, where someone wants to know."""
    tell = _watch.get()
    return None if tell is None else lambda issued: tell(f"{title}: {issued:,} instructions")


@contextmanager
def watching(tell: Callable[[str], None]) -> Generator[None]:
    """Calls `tell` every thousand instructions of the runs inside, with how far they are."""
    token = _watch.set(tell)
    try:
        yield
    finally:
        _watch.reset(token)


_collector: ContextVar[list[Run] | None] = ContextVar("trnsim_runs", default=None)


def collected(run: Run) -> Run:
    """The run, which whoever collects runs has now."""
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
