"""Worlds: one kernel on several ranks, each a logical core, that meet at collectives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trnsim import arch
from trnsim.arch.catalogue import catalogue
from trnsim.errors import BadInput, OutOfMemory
from trnsim.fabric.collective_time import fabric_for
from trnsim.fabric.exchange import MOST_RANKS, check_ranks, is_whole
from trnsim.fabric.fabric import Fabric
from trnsim.files import write
from trnsim.formatting import counted
from trnsim.hazards import LoopWatcher, RaceDetector
from trnsim.isa import Collective
from trnsim.profile.analysis.world import WorldSummary
from trnsim.profile.measures.links import loads
from trnsim.program import Program, Team, fit_programs
from trnsim.program.likeness import is_plain_data, rank_classes, timing_classes
from trnsim.program.ranks import Ranks
from trnsim.program.records import KernelRecord, RankCall
from trnsim.runs import (
    OBSERVERS,
    Launchable,
    Run,
    capacity_of,
    carried_of,
    check_words,
    core_of,
    policy_named,
    seldom_collected,
)
from trnsim.timing import Timeline, timelines
from trnsim.timing.compiler_policy import Policy

if TYPE_CHECKING:
    _Fit = tuple[tuple[Program, ...], tuple[OutOfMemory, ...]]
    _RankArgs = tuple[tuple[Any, ...], dict[str, Any]]

Arguments = Sequence[Any] | Mapping[str, Any]
"""Arguments of one rank: positional ones as a tuple, or all of them by name."""
Inputs = Sequence[Arguments] | Callable[[int], Arguments] | None


@dataclass(frozen=True)
class LinkUse:
    """Traffic of a link, an HBM, the DMA engines of a rank or an EFA adapter in collectives.

    Attributes:
        busy_s: seconds that they take at its bandwidth.
    """

    name: str
    nbytes: float
    busy_s: float


@dataclass(frozen=True)
class World:
    """The result of a run of a kernel on several ranks.

    Attributes:
        runs: one per rank, in the order of ranks.
        fabric: the instances on which they ran.
    """

    runs: tuple[Run, ...]
    fabric: Fabric

    @property
    def title(self) -> str:
        """The kernel, its ranks and where they ran."""
        nodes = "" if self.fabric.nodes == 1 else f"{self.fabric.nodes} x "
        return (
            f"{self.runs[0].title}: {counted(len(self.runs), 'rank')} of LNC={self.fabric.lnc} on "
            f"{nodes}{self.fabric.instance.name}"
        )

    @property
    def outputs(self) -> tuple[Any, ...]:
        """Each rank's return values."""
        return tuple(run.outputs for run in self.runs)

    @property
    def total_time_s(self) -> float:
        """Estimated time of the rank that takes longest, launch included."""
        return max(run.total_time_s for run in self.runs)

    @property
    def warnings(self) -> tuple[str, ...]:
        """All problems that did not stop the run, each once."""
        return tuple(dict.fromkeys(text for run in self.runs for text in run.warnings))

    @cached_property
    def skew_s(self) -> tuple[float, ...]:
        """Seconds that each rank waited for others in collectives."""
        return tuple(map(_skew_s, self.runs))

    @cached_property
    def links(self) -> tuple[LinkUse, ...]:
        """The traffic of each resource of the fabric that had any, the busiest first."""
        capacity = self.fabric.capacity
        load = np.zeros(len(capacity))
        for instruction, group, calls in self._collectives():
            load += loads(instruction, group) * calls
        with np.errstate(divide="ignore", invalid="ignore"):
            busy_s = np.where(load > 0, load / capacity, 0.0)
        rows = zip(self.fabric.names, load.tolist(), busy_s.tolist(), strict=True)
        link_uses = [LinkUse(*row) for row in rows if row[1]]
        return tuple(sorted(link_uses, key=lambda link: (-link.busy_s, link.name)))

    @cached_property
    def summary(self) -> WorldSummary:
        """Waiting, collectives, and the hidden part of these; `.text()`, `.as_dict()`."""
        from trnsim.profile.analysis.world import summarize_world  # noqa: PLC0415  a run needs none

        return summarize_world(self.title, self._timelines, self.skew_s, self.links)

    def lanes(self) -> list[dict[str, list[list[float]]]]:
        """By rank, start and end of its work, its collectives and their exposed parts, in seconds.

        Gaps of less than a pixel of a wide screen are left out.
        """
        from trnsim.profile.analysis.rank_lanes import stretches_of  # noqa: PLC0415  as above
        from trnsim.profile.measures.collectives import times_of  # noqa: PLC0415

        device_time_s = max(
            timeline.device_time_s for cores in self._timelines for timeline in cores
        )
        return [stretches_of(times_of(cores), device_time_s) for cores in self._timelines]

    def report(self, path: str | Path) -> Path:
        """Write the HTML report of all ranks to `path`, which is returned.

        It has one track per rank, waiting times, hidden time of collectives and traffic of links;
        `runs[i].report` has the instructions of one rank.
        """
        from trnsim.profile.report_page.world import world_page  # noqa: PLC0415  a run needs none

        return write(Path(path), world_page(self.summary, self._timelines), parents=True)

    def trace(self, path: str | Path) -> Path:
        """Write the trace of all ranks for https://ui.perfetto.dev to `path`, which is returned.

        A process is a rank, and one more has a track a link; arrows join the ranks of a collective.
        """
        from trnsim.profile.formats.perfetto_world import perfetto_world  # noqa: PLC0415  as above
        from trnsim.profile.measures.links import link_rates  # noqa: PLC0415

        ranks = self._timelines
        content = perfetto_world(ranks, link_rates(ranks), self.title)
        return write(Path(path), content, parents=True)

    @property
    def _timelines(self) -> list[tuple[Timeline, ...]]:
        return [run.timelines for run in self.runs]

    def _collectives(self) -> list[tuple[Collective, tuple[int, ...], int]]:
        """Each distinct collective with one of its groups, and the group's number of calls."""
        counts: Counter[tuple[tuple[object, ...], tuple[int, ...]]] = Counter()
        distinct: dict[tuple[object, ...], Collective] = {}
        for rank, run in enumerate(self.runs):
            for instruction, times in _collectives_of(run.timelines[0]):
                key = instruction.signature()
                distinct[key] = instruction
                for group in instruction.groups():
                    if group[0] == rank:
                        counts[key, group] += times
        return [(distinct[key], group, count) for (key, group), count in counts.items()]


def run_world(
    kernel: Launchable,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    chip: arch.Target,
    *,
    ranks: int,
    inputs: Inputs = None,
    lnc: int | None = None,
    instance: str | None = None,
    numerics: bool = True,
    races: str = "raise",
    capacity: str = "spill",
    order: str | None = None,
) -> World:
    """Run `kernel` on `ranks` ranks.

    Args:
        kernel: the kernel.
        args: positional arguments of all ranks.
        kwargs: keyword arguments of all ranks.
        chip: the chip.
        ranks: number of ranks.
        inputs: for each rank a tuple of positional arguments, or a dictionary by name; or a
            function of its number that returns it.
        lnc: NeuronCores of a rank; those of the kernel's grid by default.
        instance: the instance type; by default the smallest that has the ranks.
        numerics: as in `trnsim.run`.
        races: as in `trnsim.run`.
        capacity: as in `trnsim.run`.
        order: as in `trnsim.run`.

    Raises:
        BadInput: for a number of ranks that the runtime or the instance does not support, for an
            `lnc` that is not the kernel's, and for inputs that do not fit.
        Deadlock: if the ranks wait for each other for ever.
    """
    check_words(races=races, capacity=capacity)
    policy = policy_named(order)
    fabric = _fabric(kernel, chip, ranks, lnc, instance)
    args_of = _inputs(args, kwargs, inputs, ranks)
    OBSERVERS.begins(fabric, ranks)
    setup = _Setup(kernel, chip, fabric, numerics=numerics, races=races)
    try:
        with seldom_collected():
            result = _world(setup, args_of, capacity_of(kernel, capacity), policy)
        for rank, run in enumerate(result.runs):
            OBSERVERS.ended(run, rank)
    finally:
        OBSERVERS.all_over()
    return result


def _world(setup: _Setup, args_of: Sequence[_RankArgs], capacity: str, policy: Policy) -> World:
    """The runs of all ranks."""
    launches = None if setup.numerics else _shared_launches(setup, args_of)
    if launches is None:
        apart = [[rank] for rank in range(len(args_of))]
        world = Ranks(setup.fabric, len(args_of))
        launches = _completed_launches(setup, args_of, world, apart)
    fits = _programs_with_spills(launches, capacity)
    timed = _timelines_by_rank([programs for programs, _ in fits], policy, setup.kernel.cores)
    runs: dict[_Launch, Run] = {}
    for launch, rank_timelines, (_, exceeded) in zip(launches, timed, fits, strict=True):
        if launch not in runs:
            runs[launch] = launch.result(rank_timelines, tuple(map(str, exceeded)))
    return World(tuple(launch.for_rank(runs[launch]) for launch in launches), setup.fabric)


@dataclass(frozen=True)
class _Setup:
    """The settings of a run that all ranks share."""

    kernel: Launchable
    chip: arch.Target
    fabric: Fabric
    numerics: bool
    races: str


class _Launch:
    """The launch of a kernel on one rank.

    Attributes:
        outputs: the rank's return values, once it has run.
        call: comparison of its instructions with those of others; None with two cores, as races of
            their accesses depend on values.
    """

    def __init__(
        self, setup: _Setup, world: Ranks, rank: int, records: dict[Hashable, KernelRecord] | None
    ) -> None:
        kernel, chip = setup.kernel, setup.chip
        count = kernel.cores
        core = core_of(kernel.version(), chip, is_paired=count > 1)
        races, numerics = setup.races, setup.numerics
        self.outputs: object = None
        self.call = RankCall(records) if count == 1 and records is not None else None
        self._setup = setup
        self._detector = RaceDetector(count, is_strict=races == "raise") if count > 1 else None
        self._loops = [LoopWatcher() for _ in range(count)]
        self.team = Team(
            core,
            count,
            has_values=numerics,
            watcher=self._detector,
            loops=self._loops,
            call=self.call,
            member=world.member(rank),
        )

    def body(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Callable[[], object]:
        """The function that runs the kernel on the rank."""
        return lambda: self._setup.kernel.launch(self.team, args, kwargs)

    def programs(self) -> tuple[Program, ...]:
        """The instructions of each core."""
        return tuple(context.program for context in self.team.contexts)

    def result(self, timed: tuple[Timeline, ...], overfull: tuple[str, ...]) -> Run:
        """The run of the rank."""
        detector = self._detector
        races = tuple(map(str, detector.races)) if detector is not None else ()
        doubtful = tuple(map(str, detector.doubtful)) if detector is not None else ()
        carried = carried_of(self._loops)
        kernel, chip = self._setup.kernel, self._setup.chip
        version = kernel.version()
        return Run(
            kernel.title, chip, self.outputs, timed, races, overfull, carried, doubtful, version
        )

    def for_rank(self, run: Run) -> Run:
        """The result of a rank that shares this launch, with a copy of the outputs."""
        if self._setup.numerics or self.outputs is None:
            return run
        return replace(run, outputs=deepcopy(self.outputs))


def _shared_launches(setup: _Setup, args_of: Sequence[_RankArgs]) -> list[_Launch] | None:
    """For each rank the launch of a rank with the same instructions.

    None if no two ranks have the same, or if a launch fails: launches of each rank then raise the
    error at its line.
    """
    classes = rank_classes(args_of)
    if len(classes) == len(args_of):
        return None
    world = Ranks(setup.fabric, len(args_of), classes)
    try:
        launches = _completed_launches(setup, args_of, world, classes)
    except Exception:  # noqa: BLE001  raised again by the ranks on their own
        return None
    if world.differs or not all(is_plain_data(launch.outputs) for launch in launches):
        return None
    of_rank = {
        rank: launch for ranks, launch in zip(classes, launches, strict=True) for rank in ranks
    }
    return [of_rank[rank] for rank in range(len(args_of))]


def _completed_launches(
    setup: _Setup, args_of: Sequence[_RankArgs], world: Ranks, classes: Sequence[Sequence[int]]
) -> list[_Launch]:
    """For each class of ranks the completed launch of its first rank."""
    ranks = [members[0] for members in classes]
    records: dict[Hashable, KernelRecord] | None = {} if len(ranks) > 1 else None
    launches = [_Launch(setup, world, rank, records) for rank in ranks]
    for launch, alike_ranks in zip(launches, classes, strict=True):
        for rank in alike_ranks:
            OBSERVERS.issues(launch.team, setup.kernel.title, rank)
    bodies = [launch.body(*args_of[rank]) for rank, launch in zip(ranks, launches, strict=True)]
    for launch, outputs in zip(launches, world.run(bodies), strict=True):
        launch.outputs = outputs
        if launch.call is not None:
            launch.call.conclude()
    return launches


def _programs_with_spills(launches: Sequence[_Launch], capacity: str) -> list[_Fit]:
    """For each rank its programs with spills, and its errors of capacity.

    Launches with the same programs get the same objects.
    """
    by_programs: dict[tuple[int, ...], _Fit] = {}
    fits: dict[_Launch, _Fit] = {}
    for launch in dict.fromkeys(launches):
        programs = launch.programs()
        key = tuple(map(id, programs))
        if key not in by_programs:
            spilled, exceeded = fit_programs(programs, capacity)
            by_programs[key] = tuple(spilled), exceeded
        fits[launch] = by_programs[key]
    return [fits[launch] for launch in launches]


def _timelines_by_rank(
    programs: Sequence[tuple[Program, ...]], policy: Policy, cores: int
) -> list[tuple[Timeline, ...]]:
    """The timelines of each rank's cores; ranks that keep step have the same ones."""
    classes = timing_classes(programs)
    firsts = [ranks[0] for ranks in classes]
    timed = timelines([p for rank in firsts for p in programs[rank]], policy, cores, firsts)
    timelines_of: dict[int, tuple[Timeline, ...]] = {}
    for index, ranks in enumerate(classes):
        class_timelines = timed[index * cores : (index + 1) * cores]
        for rank in ranks:
            timelines_of[rank] = class_timelines
            if programs[rank] is not programs[ranks[0]]:
                pairs = zip(class_timelines, programs[rank], strict=True)
                timelines_of[rank] = tuple(
                    timeline.for_program(program) for timeline, program in pairs
                )
    return [timelines_of[rank] for rank in range(len(programs))]


def _fabric(
    kernel: Launchable, chip: arch.Target, ranks: int, lnc: int | None, instance: str | None
) -> Fabric:
    """The fabric of the ranks.

    Raises:
        BadInput: for an `lnc` that is not the kernel's grid, and ranks that do not fit.
    """
    if not is_whole(ranks) or ranks > MOST_RANKS:
        raise BadInput(
            f"ranks={ranks!r}; legal: a whole number up to {MOST_RANKS:,}",
            fix="leave ranks out to run on one core",
        )
    if lnc is not None and not (is_whole(lnc) and lnc == kernel.cores):
        raise BadInput(
            f"lnc={lnc!r} for {kernel.title}, whose grid has {kernel.cores}; legal: lnc="
            f"{kernel.cores}",
            fix="launch kernel[1] or kernel[2], or leave lnc out: the grid decides",
            source="nki.jit",
        )
    if instance is None:
        fabric = fabric_for(chip.chip, max(ranks, 1), kernel.cores)
    else:
        row = catalogue().instance(instance)
        if row.accelerator != chip.chip:
            raise BadInput(
                f"instance {instance} has {row.accelerator}; target {chip.name} has {chip.chip}",
                fix="name an instance of the target, or the target of the instance",
            )
        fabric = Fabric(row, lnc=kernel.cores)
    check_ranks(fabric, ranks)
    return fabric


def _inputs(
    args: Sequence[Any], kwargs: Mapping[str, Any], inputs: Inputs, ranks: int
) -> list[_RankArgs]:
    """The positional and keyword arguments of each rank.

    Raises:
        BadInput: for both kinds of arguments, or inputs that are no tuple for each rank.
    """
    if inputs is None:
        return [(tuple(args), dict(kwargs))] * ranks
    if args:
        raise BadInput(
            "positional arguments and inputs= together",
            fix="let inputs give all positional arguments, and pass common ones by keyword",
        )
    entries = [inputs(rank) for rank in range(ranks)] if callable(inputs) else inputs
    if not isinstance(entries, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]  of a user
        raise BadInput(
            f"inputs is {type(entries).__name__}; legal: a tuple for each of {ranks} ranks",
            fix="give a tuple of arguments for each rank, or a function of the rank",
        )
    entries = list(entries)
    if len(entries) != ranks:
        raise BadInput(
            f"inputs for {len(entries)} ranks; legal: a tuple for each of {ranks}",
            fix="give a tuple of arguments for each rank, or a function of the rank",
        )
    for entry in entries:
        if not isinstance(entry, tuple | list | Mapping):
            raise BadInput(
                f"inputs has a {type(entry).__name__} for a rank; legal: a tuple of its arguments, "
                "or a dictionary",
                fix="return (array,) for a kernel with one argument",
            )
    return [
        ((), {**kwargs, **entry}) if isinstance(entry, Mapping) else (tuple(entry), dict(kwargs))
        for entry in entries
    ]


def _collectives_of(timeline: Timeline) -> list[tuple[Collective, int]]:
    """The distinct collectives of a core, and how often it issued each."""
    counts = Counter(timeline.program.which)
    return [
        (checked.instruction, counts[number])
        for number, checked in enumerate(timeline.program.checked)
        if isinstance(checked.instruction, Collective)
    ]


def _skew_s(run: Run) -> float:
    """The time that a rank waited for others: at each collective, that of its last core."""
    waited = [
        [
            timeline.meeting_wait_s(index)
            for index, which in enumerate(timeline.program.which)
            if timeline.program.checked[which].instruction.meets_ranks
        ]
        for timeline in run.timelines
    ]
    return float(sum(min(cores) for cores in zip(*waited, strict=False)))
