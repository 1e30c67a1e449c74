"""`trnsim.run`: one call that runs a kernel and returns its outputs, instructions and times."""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, overload, runtime_checkable

from trnsim import arch
from trnsim.errors import BadInput, InternalError
from trnsim.hazards import LoopWatcher, RaceDetector
from trnsim.program import Call, Team, current_core, fitted, has_current_core
from trnsim.timing import Timeline, policy_of, timelines
from trnsim.user_warnings import warn_of_spills

if TYPE_CHECKING:
    from pathlib import Path

    from trnsim.fabric.fabric import Fabric
    from trnsim.profile.analysis.summary import Summary
    from trnsim.program import Capture, Program, Records
    from trnsim.timing.compiler_policy import Policy
    from trnsim.worlds import Inputs, World


@runtime_checkable
class Launchable(Protocol):
    """Interface between a front end and `run`: a kernel that can issue instructions to cores."""

    @property
    def title(self) -> str:
        """The kernel's name in reports and messages."""
        ...

    @property
    def cores(self) -> int:
        """Number of NeuronCores that run it together (the LNC degree)."""
        ...

    @property
    def records(self) -> Records | None:
        """The records of its earlier calls; None if they are not kept."""
        ...

    def launch(self, team: Team, args: Sequence[Any], kwargs: Mapping[str, Any]) -> object:
        """Issue the kernel's instructions; returns its outputs as the caller's kind of array."""
        ...


@dataclass(frozen=True)
class Run:
    """The result of one run of a kernel: outputs, timelines and warnings.

    Attributes:
        title: the kernel's name.
        target: the chip that was emulated.
        outputs: the kernel's return values, as the kind of array that was passed in.
        timelines: one per core: which instruction ran when.
        races: data races between two cores, with `races="warn"`.
        doubtful: unordered writes of two cores to the same bytes that wrote equal values for these
            inputs, or that a run without values cannot judge.
        overfull: where SBUF or PSUM was exceeded, and what was spilled.
        carried: loop-carried dependences in loops that promise to have none (`nl.affine_range`).
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
        """All problems that did not stop the run: races, doubtful, overfull and carried."""
        return self.races + self.doubtful + self.overfull + self.carried

    @property
    def timeline(self) -> Timeline:
        """The timeline of the core that took longest."""
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
        """The bottleneck, how busy each engine was, and how uncertain the estimate is."""
        return self._summary

    @cached_property
    def _summary(self) -> Summary:
        from trnsim.profile.analysis.summary import summarize  # noqa: PLC0415  a kernel alone needs none

        return summarize(self.timeline)

    def report(self, path: str | Path) -> Path:
        """Write the run's HTML report to `path`, which is returned."""
        from trnsim.profile.formats.stored import report_of  # noqa: PLC0415  as above
        from trnsim.profile.report import write_page  # noqa: PLC0415  as above

        return write_page(report_of([self]), path)


@overload
def run(
    kernel: Launchable | object,
    *args: Any,
    ranks: None = None,
    target: str = ...,
    numerics: bool = ...,
    races: Literal["raise", "warn"] = ...,
    capacity: Literal["spill", "raise", "warn"] = ...,
    order: Literal["compiler", "issued"] | None = ...,
    kernel_kwargs: Mapping[str, Any] | None = ...,
    **kwargs: Any,
) -> Run: ...
@overload
def run(
    kernel: Launchable | object,
    *args: Any,
    ranks: int,
    inputs: Inputs = ...,
    lnc: int | None = ...,
    instance: str | None = ...,
    target: str = ...,
    numerics: bool = ...,
    races: Literal["raise", "warn"] = ...,
    capacity: Literal["spill", "raise", "warn"] = ...,
    order: Literal["compiler", "issued"] | None = ...,
    kernel_kwargs: Mapping[str, Any] | None = ...,
    **kwargs: Any,
) -> World: ...
def run(
    kernel: Launchable | object,
    *args: Any,
    ranks: int | None = None,
    target: str = "trn2",
    numerics: bool = True,
    races: Literal["raise", "warn"] = "raise",
    capacity: Literal["spill", "raise", "warn"] = "spill",
    order: Literal["compiler", "issued"] | None = None,
    kernel_kwargs: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> Run | World:
    """Run `kernel` on an emulated NeuronCore: compute its outputs and estimate its time.

    Args:
        kernel: an `@nki.jit` kernel.
        *args: its arguments; numpy and torch arrays become tensors in HBM.
        ranks: how many ranks run it, which exchange tensors by `nki.collectives`; the result is
            then a `World`. Three more keywords go with it: `inputs`, a tuple of positional
            arguments for each rank or a function of its number that gives it, in the place of
            `*args`; `lnc`, the NeuronCores of a rank, which the kernel's grid has to agree with;
            and `instance`, the instance type on which they lie, such as "trn2.48xlarge".
        target: the chip, a name of `arch.TARGETS`: "trn2".
        numerics: False to get instructions and times without computing values.
        races: "raise" an error on a data race between two cores, or "warn" and go on.
        capacity: where live tensors exceed SBUF or PSUM, "spill" to the next memory what has no
            room, as AWS's compiler does (memory-hierarchy-overview.rst; its choice is not public),
            and warn; "raise" an error; or "warn" and go on as if spills took no time.
        order: "compiler" (the default) to time an engine's instructions in an order that AWS's
            compiler might give them, "issued" in the order of the kernel; values are the same.
        kernel_kwargs: keyword arguments of the kernel whose names clash with those of `run`.
        **kwargs: the kernel's other keyword arguments.

    Raises:
        BadInput: for any other `races`, `capacity` or `order`, or for kernel[2] on a chip without
            logical cores.
        EmulatorError: where the chip or its compiler would refuse the kernel; names its line.
    """
    if not isinstance(kernel, Launchable):
        raise BadInput(
            f"run was given {kernel!r}; legal: a kernel",
            fix="decorate the function with @nki.jit",
        )
    if has_current_core():
        current_core().refuse_capture("it runs another kernel by trnsim.run")
    chip = arch.target(target)
    said = {"numerics": numerics, "races": races, "capacity": capacity, "order": order}
    if ranks is None:
        given = {**kwargs, **(kernel_kwargs or {})}
        found = begun(kernel, args, given, chip, **said)
        _warn_of_spills(found)
        return found
    of_the_world = {name: kwargs.pop(name) for name in _OF_A_WORLD if name in kwargs}
    given = {**kwargs, **(kernel_kwargs or {})}
    return _on_ranks(kernel, args, given, chip, ranks=ranks, **said, **of_the_world)


class RunListener(Protocol):
    """Interface to who keeps the state of this process."""

    def begins(self, fabric: Fabric | None = None, ranks: int = 1) -> None:
        """A run is about to begin, on `ranks` of a fabric; an error raised here is the run's."""
        ...

    def issues(self, team: Team, title: str, rank: int = 0) -> None:
        """The cores of a rank are about to issue the instructions of a kernel of this title."""
        ...

    def ended(self, run: Run, rank: int = 0) -> None:
        """The run of a rank has ended."""
        ...

    def left(self) -> None:
        """The runs of all ranks are over, whether they ended or failed."""
        ...


listeners: Final[list[RunListener]] = []


class _FirstRun:
    """Begins to keep the state with the first run: a program without one needs none of its room."""

    def begins(self, fabric: Fabric | None = None, ranks: int = 1) -> None:
        """Put the state's own listener in this one's place, and tell it."""
        listeners.remove(self)
        known = tuple(listeners)
        import_module("trnsim.device.watch").watch_runs()  # a room above this one
        for one in listeners:
            if one not in known:
                one.begins(fabric, ranks)

    def issues(self, team: Team, title: str, rank: int = 0) -> None:
        """Nothing: a run that issues has begun."""

    def ended(self, run: Run, rank: int = 0) -> None:
        """Nothing, as above."""

    def left(self) -> None:
        """Nothing, as above."""


def watch_first() -> None:
    """Keep the state of this process from its first run on."""
    listeners.append(_FirstRun())


@contextmanager
def untold() -> Generator[None]:
    """Inside, the listeners are told of no run: the caller tells of what the run is part of."""
    kept = listeners.copy()
    listeners.clear()
    try:
        yield
    finally:
        listeners[:] = kept


def begun(
    kernel: Launchable,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    chip: arch.Target,
    **how: Any,
) -> Run:
    """As `launch`; the listeners are told of the run, and it is collected."""
    for one in tuple(listeners):
        one.begins()
    try:
        found = collected(launch(kernel, args, kwargs, chip, **how, told=_tell_of_team))
        for one in listeners:
            one.ended(found)
    finally:
        for one in listeners:
            one.left()
    return found


def _warn_of_spills(run: Run) -> None:
    """Warn of what a run spilled, unless a surrounding `collecting` block tells of it."""
    if _collector.get() is None:
        warn_of_spills(run.overfull)


def _tell_of_team(team: Team, title: str) -> None:
    for one in listeners:
        one.issues(team, title)


def _on_ranks(kernel: Launchable, *args: Any, **how: Any) -> World:
    """The run of a kernel on ranks, told to the surrounding blocks."""
    from trnsim.worlds import run_world  # noqa: PLC0415  it is made of runs

    found = run_world(kernel, *args, **how)
    collected(found.runs[0])
    _warn_of_spills(found.runs[0])
    worlds = _worlds.get()
    if worlds is not None:
        worlds.append(found)
    return found


def launch(
    kernel: Launchable,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    chip: arch.Target,
    numerics: bool = True,
    races: str = "raise",
    capacity: str = "spill",
    capture: Capture | None = None,
    order: str | None = None,
    is_mirrored: bool = False,
    told: Callable[[Team, str], None] = lambda _team, _title: None,
) -> Run:
    """As `run`, on a `Target`; a `capture` keeps the instructions so that they can run again.

    `told` is called with the cores and the kernel's title before anything is issued.

    A kernel of one core that `is_mirrored` runs on both cores of a logical core, which do the same
    at the same time. It has no values: what the other core sends is not computed.
    """
    check_words(races=races, capacity=capacity)
    policy = policy_named(order)
    if is_mirrored and (numerics or kernel.cores > 1):
        raise InternalError("a mirrored run is of one core and without values")
    core = arch.paired(chip) if is_mirrored or kernel.cores > 1 else chip.core
    detector = RaceDetector(kernel.cores, is_strict=races == "raise") if kernel.cores > 1 else None
    loops = [LoopWatcher() for _ in range(kernel.cores)]
    call = None
    if kernel.cores == 1 and not is_mirrored and kernel.records is not None and capture is None:
        call = Call(kernel.records, (chip.name, capacity, numerics, policy.name))
    team = Team(
        core,
        kernel.cores,
        has_values=numerics,
        watcher=detector,
        loops=loops,
        call=call,
        is_mirrored=is_mirrored,
    )
    team.contexts[0].capture = capture
    team.contexts[0].tell = _progress(f"{kernel.title} on {chip.name}")
    told(team, kernel.title)
    with seldom_collected():
        outputs = kernel.launch(team, args, kwargs)
        carried = carried_of(loops)
        if call is not None and isinstance(call.outcome, Run):
            return replace(call.outcome, outputs=outputs, carried=carried)
        programs = [context.program for context in team.contexts]
        made, exceeded = fitted(programs, capacity)
        overfull = tuple(map(str, exceeded))
        timed = timelines(made, policy)
        found = tuple(map(str, detector.races)) if detector is not None else ()
        doubtful = tuple(map(str, detector.doubtful)) if detector is not None else ()
        result = Run(kernel.title, chip, outputs, timed, found, overfull, carried, doubtful)
        if call is not None:
            call.conclude(replace(result, outputs=None))
        return result


def policy_named(order: str | None) -> Policy:
    """The policy called `order`; that of the surrounding `ordered` block for None."""
    return policy_of(_order.get() if order is None else order)


def carried_of(loops: Sequence[LoopWatcher]) -> tuple[str, ...]:
    """The loop-carried dependences that were found, each once: cores run the same lines."""
    return tuple(dict.fromkeys(text for watcher in loops for text in watcher.found))


@contextmanager
def seldom_collected() -> Generator[None]:
    """In this block, cycles are looked for seldom: of what a run makes, almost all stays."""
    youngest, *older = gc.get_threshold()
    if youngest:  # 0 is the user's: never
        gc.set_threshold(max(youngest, _COLLECTED), *older)
    try:
        yield
    finally:
        gc.set_threshold(youngest, *older)


def check_words(**given: object) -> None:
    """Raise `BadInput` unless each argument is one of its legal words."""
    for name, word in given.items():
        legal = _LEGAL_WORDS[name]
        if word not in legal:
            raise BadInput(
                f"run({name}={word!r}); legal: {', '.join(map(_QUOTED, legal))}",
                fix=f'leave {name} out, or pass {name}="warn" to be told and go on',
            )


_COLLECTED: Final = 100_000
"""New objects after which cycles are looked for during a run; a program has millions."""
_OF_A_WORLD: Final = ("inputs", "lnc", "instance")
"""Keywords that are the run's with `ranks`, and the kernel's without."""
_QUOTED: Final = '"{}"'.format
_LEGAL_WORDS = {"races": ("raise", "warn"), "capacity": ("spill", "raise", "warn")}
_watch: ContextVar[Callable[[str], None] | None] = ContextVar("trnsim_watch", default=None)


def _progress(title: str) -> Callable[[int], None] | None:
    """A callback that reports how many instructions were issued; None if nobody is `watching`."""
    tell = _watch.get()
    return None if tell is None else lambda issued: tell(f"{title}: {issued:,} instructions")


@contextmanager
def watching(tell: Callable[[str], None]) -> Generator[None]:
    """Report the progress of runs in this block: `tell` is called every thousand instructions."""
    token = _watch.set(tell)
    try:
        yield
    finally:
        _watch.reset(token)


_order: ContextVar[str] = ContextVar("trnsim_order", default="compiler")


@contextmanager
def ordered(order: str) -> Generator[None]:
    """In this block, `order` is the order of runs that name none."""
    token = _order.set(policy_of(order).name)
    try:
        yield
    finally:
        _order.reset(token)


_ranks: ContextVar[tuple[int, str | None] | None] = ContextVar("trnsim_ranks", default=None)


@contextmanager
def on_ranks(ranks: int | None, instance: str | None) -> Generator[None]:
    """In this block, kernels that are called run on so many ranks, each with the same arguments.

    A call returns what rank 0 returns. Without `ranks` nothing changes.
    """
    token = _ranks.set(None if ranks is None else (ranks, instance))
    try:
        yield
    finally:
        _ranks.reset(token)


def called(kernel: Launchable, args: Sequence[Any], **how: Any) -> Run:
    """The run of a kernel that is called: that of rank 0 in an `on_ranks` block."""
    asked = _ranks.get()
    if asked is None:
        alone: Run = run(kernel, *args, **how)
        return alone
    ranks, instance = asked
    world: World = run(kernel, *args, ranks=ranks, instance=instance, **how)
    return world.runs[0]


_worlds: ContextVar[list[World] | None] = ContextVar("trnsim_worlds", default=None)


@contextmanager
def collecting_worlds() -> Generator[list[World]]:
    """A list that receives every run on ranks made in this block, in order."""
    worlds: list[World] = []
    token = _worlds.set(worlds)
    try:
        yield worlds
    finally:
        _worlds.reset(token)


_collector: ContextVar[list[Run] | None] = ContextVar("trnsim_runs", default=None)


def collected(run: Run) -> Run:
    """`run`, after it has been added to the list of a surrounding `collecting` block."""
    collector = _collector.get()
    if collector is not None:
        collector.append(run)
    return run


@contextmanager
def collecting() -> Generator[list[Run]]:
    """A list that receives every run made in this block, in order."""
    runs: list[Run] = []
    token = _collector.set(runs)
    try:
        yield runs
    finally:
        _collector.reset(token)
