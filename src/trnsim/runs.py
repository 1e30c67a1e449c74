"""Runs: a kernel on one rank, its outputs, instructions and times, and the observers of runs."""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from trnsim import arch, observers
from trnsim.behaviours.chosen import NOT_CHOSEN, VersionChoice
from trnsim.context_values import context_value
from trnsim.errors import BadInput, InternalError
from trnsim.fabric.fabric import Fabric
from trnsim.hazards import LoopWatcher, RaceDetector
from trnsim.program import Call, Capture, JointCall, Program, Records, Team, fit_programs
from trnsim.timing import Timeline, policy_of, timelines
from trnsim.timing.compiler_policy import Policy
from trnsim.user_warnings import warn_of_spills

if TYPE_CHECKING:
    from trnsim.profile.analysis.summary import Summary


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
    def may_spill(self) -> bool:
        """False if the kernel itself asks for an error where tensors exceed SBUF or PSUM."""
        ...

    def version(self) -> VersionChoice:
        """The version of NKI whose rules it follows, and the reason."""
        ...

    @property
    def records(self) -> Records | None:
        """The records of its earlier calls; None if they are not kept."""
        ...

    def launch(self, team: Team, args: Sequence[Any], kwargs: Mapping[str, Any]) -> object:
        """Issue the kernel's instructions; returns its outputs as the caller's kind of array."""
        ...


@dataclass(frozen=True, repr=False)
class Run:
    """The result of one run of a kernel: outputs, timelines and warnings.

    Attributes:
        title: the kernel's name.
        target: the chip that was emulated.
        outputs: the kernel's return values, as the kind of array that was passed in.
        timelines: one per core: the times of its instructions.
        races: data races between two cores, with `races="warn"`.
        doubtful: unordered writes of two cores to the same bytes that wrote equal values for these
            inputs, or that a run without values cannot judge.
        overfull: texts on exceeded SBUF or PSUM, with the spilled tensors.
        carried: loop-carried dependences in loops that promise to have none (`nl.affine_range`).
        version: the version of NKI that the kernel followed, and why.
    """

    title: str
    target: arch.Target
    outputs: Any
    timelines: tuple[Timeline, ...]
    races: tuple[str, ...] = ()
    overfull: tuple[str, ...] = ()
    carried: tuple[str, ...] = ()
    doubtful: tuple[str, ...] = ()
    version: VersionChoice = NOT_CHOSEN

    @property
    def warnings(self) -> tuple[str, ...]:
        """All problems that did not stop the run: races, doubtful, overfull and carried."""
        return self.races + self.doubtful + self.overfull + self.carried

    @property
    def timeline(self) -> Timeline:
        """The timeline of the core that took longest."""
        if len(self.timelines) == 1:
            return self.timelines[0]
        return max(self.timelines, key=lambda timeline: timeline.total_time_s)

    @property
    def program(self) -> Program:
        """The instructions of the core that took longest."""
        return self.timeline.program

    @property
    def total_time_s(self) -> float:
        """Estimated time on the chip, launch included."""
        return self.timeline.total_time_s

    def with_outputs(self, outputs: Any) -> Run:
        """The run with other outputs. `dataclasses.replace` would take three times as long."""
        return Run(
            self.title, self.target, outputs, self.timelines, self.races, self.overfull,
            self.carried, self.doubtful, self.version,
        )  # fmt: skip

    @property
    def summary(self) -> Summary:
        """The bottleneck, how busy each engine was, and how uncertain the estimate is."""
        return self._summary

    @cached_property
    def _summary(self) -> Summary:
        from trnsim.profile.analysis.summary import summarize  # noqa: PLC0415  a kernel alone needs none

        return summarize(self.timeline)

    def __str__(self) -> str:
        number = len(self.warnings)
        warned = f", {number} warning{'s' * (number > 1)}" if number else ""
        return f"{self.title} on {self.target.name}: {self.summary}{warned}"

    def __repr__(self) -> str:
        return f"<Run of {self}>"

    def _repr_html_(self) -> str:
        """The run's page, embedded in a notebook."""
        from trnsim.document.html import inline  # noqa: PLC0415  a kernel alone needs none
        from trnsim.profile.formats.stored import report_of  # noqa: PLC0415  as above
        from trnsim.profile.report_page.html import html  # noqa: PLC0415  as above

        return inline(str(self), html(report_of([self])))

    def report(self, path: str | Path) -> Path:
        """Write the run's HTML report to `path`, which is returned."""
        from trnsim.profile.formats.stored import report_of  # noqa: PLC0415  as above
        from trnsim.profile.report import write_page  # noqa: PLC0415  as above

        return write_page(report_of([self]), path)


class RunObserver(Protocol):
    """Interface to observers of runs, such as the one that keeps the state of this process."""

    def begins(self, fabric: Fabric | None = None, ranks: int = 1) -> None:
        """A run is about to begin, on `ranks` of a fabric; an error raised here is the run's."""
        ...

    def issues(self, team: Team, title: str, rank: int = 0) -> None:
        """The cores of a rank are about to issue the instructions of a kernel of this title."""
        ...

    def ended(self, run: Run, rank: int = 0) -> None:
        """The run of a rank has ended."""
        ...

    def all_over(self) -> None:
        """The runs of all ranks are over, whether they ended or failed."""
        ...


class RunObservers:
    """The observers of the runs of this process."""

    def __init__(self) -> None:
        self.present: list[RunObserver] = []
        self._is_expecting = False

    def expect(self) -> None:
        """The user is about to run a kernel: the observers passed in are called from then on."""
        self._is_expecting = not self.present

    def begins(self, fabric: Fabric | None = None, ranks: int = 1) -> None:
        """Tell all observers that a run begins; those passed in are made now, if it is expected."""
        if self._is_expecting:
            self._is_expecting = False
            self.present += [make() for make in observers.run_observer_factories]
        for observer in tuple(self.present):
            observer.begins(fabric, ranks)

    def issues(self, team: Team, title: str, rank: int = 0) -> None:
        """Tell all observers that a rank is about to issue instructions."""
        for observer in self.present:
            observer.issues(team, title, rank)

    def ended(self, run: Run, rank: int = 0) -> None:
        """Tell all observers that the run of a rank has ended."""
        for observer in self.present:
            observer.ended(run, rank)

    def all_over(self) -> None:
        """Tell all observers that the runs of all ranks are over."""
        for observer in self.present:
            observer.all_over()

    @contextmanager
    def paused(self) -> Generator[None]:
        """Context in which no observer is called: the caller reports the larger run around it."""
        state_before = self.present, self._is_expecting
        self.present, self._is_expecting = [], False
        try:
            yield
        finally:
            self.present, self._is_expecting = state_before


OBSERVERS: Final = RunObservers()


def warn_of_overfull(run: Run) -> None:
    """Warn of the spills of a run, unless a surrounding `collecting` block reports them."""
    if _collector.get() is None:
        warn_of_spills(run.overfull)


def check_kernel_kwargs(function: str, kernel_kwargs: object) -> None:
    """Refuse keyword arguments of a kernel that are no mapping, as `function` was given them.

    Raises:
        BadInput: says what is legal.
    """
    if not isinstance(kernel_kwargs, Mapping | None):
        raise BadInput(
            f"{function}(kernel_kwargs={kernel_kwargs!r}); legal: a dictionary",
            fix="give the kernel's keyword arguments by their names",
        )


def launch(
    kernel: Launchable,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    chip: arch.Target,
    numerics: bool = True,
    races: str = "raise",
    capacity: str = "spill",
    captures: Sequence[Capture] = (),
    order: str | None = None,
    is_mirrored: bool = False,
    on_start: Callable[[Team, str], None] = lambda _team, _title: None,
) -> Run:
    """As `trnsim.run`, on a `Target`; `captures` of each core keep the instructions to run again.

    `on_start` is called with the cores and the kernel's title before anything is issued.

    A kernel of one core that `is_mirrored` runs on both cores of a logical core, which do the same
    at the same time. It has no values: data from the other core is not computed.
    """
    check_words(races=races, capacity=capacity)
    capacity = capacity_of(kernel, capacity)
    policy = policy_named(order)
    if is_mirrored and (numerics or kernel.cores > 1):
        raise InternalError("a mirrored run is of one core and without values")
    version = kernel.version()
    core = core_of(version, chip, is_paired=is_mirrored or kernel.cores > 1)
    detector = RaceDetector(kernel.cores, is_strict=races == "raise") if kernel.cores > 1 else None
    loops = [LoopWatcher() for _ in range(kernel.cores)]
    records = None if is_mirrored or captures else kernel.records
    call = _call(records, (chip.name, capacity, numerics, policy.name, core.nki), detector)
    team = Team(
        core,
        kernel.cores,
        has_values=numerics,
        watcher=detector,
        loops=loops,
        call=call,
        is_mirrored=is_mirrored,
    )
    for context, capture in zip(team.contexts, captures, strict=False):
        context.capture = capture
    title = kernel.title
    team.contexts[0].report_progress = _progress(f"{title} on {chip.name}")
    on_start(team, title)
    with seldom_collected():
        outputs = kernel.launch(team, args, kwargs)
        carried = carried_of(loops)
        certain, doubtful = _races(detector)
        if call is not None and isinstance(call.outcome, Run):
            earlier_run = call.outcome
            timed, overfull = earlier_run.timelines, earlier_run.overfull
            return Run(title, chip, outputs, timed, certain, overfull, carried, doubtful, version)
        fitted_programs, exceeded = fit_programs(
            [context.program for context in team.contexts], capacity
        )
        overfull, timed = tuple(map(str, exceeded)), timelines(fitted_programs, policy)
        result = Run(title, chip, outputs, timed, certain, overfull, carried, doubtful, version)
        return _remembered(result, call)


def _call(
    records: Records | None, conditions: tuple[object, ...], detector: RaceDetector | None
) -> Call | JointCall | None:
    """The call of a kernel with records: joint with a `detector`, as that has several cores."""
    if records is None:
        return None
    if detector is None:
        return Call(records, conditions)
    return JointCall(records, conditions, detector)


def _remembered(run: Run, call: Call | JointCall | None) -> Run:
    """The run, which is kept without its outputs as the outcome of its call."""
    outcome = run.with_outputs(None)
    if isinstance(call, JointCall):
        call.conclude(outcome, is_certain=not run.races + run.doubtful)
    elif call is not None:
        call.conclude(outcome)
    return run


def _races(detector: RaceDetector | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The texts of certain and of doubtful races; none without a detector."""
    if detector is None:
        return (), ()
    return tuple(map(str, detector.races)), tuple(map(str, detector.doubtful))


def capacity_of(kernel: Launchable, capacity: str) -> str:
    """`capacity`, or "raise" instead of "spill" for a kernel that may not spill."""
    return "raise" if capacity == "spill" and not kernel.may_spill else capacity


def core_of(version: VersionChoice, chip: arch.Target, *, is_paired: bool) -> arch.NeuronCore:
    """The core of `chip` for a kernel that follows the rules of a version of NKI."""
    core = arch.paired(chip) if is_paired else chip.core
    return core.with_nki(version.version, is_simulated=version.is_simulated)


def policy_named(order: str | None) -> Policy:
    """The policy called `order`; that of the surrounding `ordered` block for None."""
    return policy_of(_order.get() if order is None else order)


def carried_of(loops: Sequence[LoopWatcher]) -> tuple[str, ...]:
    """The loop-carried dependences of all cores, each once: cores run the same lines."""
    return tuple(dict.fromkeys(text for watcher in loops for text in watcher.dependences))


@contextmanager
def seldom_collected() -> Generator[None]:
    """In this block the garbage collector runs seldom: almost all objects of a run stay.

    Blocks of several threads may overlap: the last that ends restores the user's thresholds.
    """
    with _threshold_lock:
        _user_thresholds.append(_user_thresholds[0] if _user_thresholds else gc.get_threshold())
        youngest, *older = _user_thresholds[0]
        if youngest:  # 0 is the user's: never
            gc.set_threshold(max(youngest, _COLLECTED), *older)
    try:
        yield
    finally:
        with _threshold_lock:
            thresholds = _user_thresholds.pop()
            if not _user_thresholds:
                gc.set_threshold(*thresholds)


def check_words(**arguments: object) -> None:
    """Raise `BadInput` unless each argument is one of its legal words."""
    for name, word in arguments.items():
        legal = _LEGAL_WORDS[name]
        if word not in legal:
            raise BadInput(
                f"run({name}={word!r}); legal: {', '.join(map(_QUOTED, legal))}",
                fix=f'leave {name} out, or pass {name}="warn" to be told and go on',
            )


_COLLECTED: Final = 100_000
"""New objects after which the garbage collector runs during a run; a program has millions."""
_threshold_lock: Final = Lock()
_user_thresholds: Final[list[tuple[int, int, int]]] = []
"""The user's thresholds of the garbage collector, for each open block of `seldom_collected`."""
_QUOTED: Final = '"{}"'.format
_LEGAL_WORDS = {"races": ("raise", "warn"), "capacity": ("spill", "raise", "warn")}
_watch: ContextVar[Callable[[str], None] | None] = ContextVar("trnsim_watch", default=None)


def _progress(title: str) -> Callable[[int], None] | None:
    """A callback that reports how many instructions were issued; None if nobody is `watching`."""
    tell = _watch.get()
    return None if tell is None else lambda issued: tell(f"{title}: {issued:,} instructions")


def watching(tell: Callable[[str], None]) -> AbstractContextManager[None]:
    """Report the progress of runs in this block: `tell` is called every thousand instructions."""
    return context_value(_watch, tell)


_order: ContextVar[str] = ContextVar("trnsim_order", default="compiler")


def ordered(order: str) -> AbstractContextManager[None]:
    """In this block, `order` is the order of runs that name none."""
    return context_value(_order, policy_of(order).name)


_collector: ContextVar[list[Run] | None] = ContextVar("trnsim_runs", default=None)


def collect(run: Run) -> Run:
    """`run`, after it has been added to the list of a surrounding `collecting` block."""
    collector = _collector.get()
    if collector is not None:
        collector.append(run)
    return run


@contextmanager
def collecting() -> Generator[list[Run]]:
    """A list that receives every run made in this block, in order."""
    runs: list[Run] = []
    with context_value(_collector, runs):
        yield runs
