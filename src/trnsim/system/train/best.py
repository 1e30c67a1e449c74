"""Search for the layout of the shortest step: all are ranked roughly, the first ones timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from itertools import islice
from typing import Any, Final, NoReturn

from trnsim.errors import BadInput, OutOfMemory
from trnsim.estimate.measured import MeasuredTimes
from trnsim.place.machine import Machine, machine
from trnsim.system import search
from trnsim.system.train import memory
from trnsim.system.train.candidates import LayoutRequest, layouts, roomy_layouts, smallest_layout
from trnsim.system.train.layout import Layout, check
from trnsim.system.train.step import TrainingStep, TrainingSteps
from trnsim.workload.architecture import Architecture

BUDGET: Final = 48
"""Default number of layouts that are timed."""
_AS_GOOD: Final = 1.005
"""Ratio below which two steps are equally fast; then the plainer layout is taken."""
_COUNT_HALVINGS: Final = 6
_LAYOUTS_TIMED_ELSEWHERE: Final = 4
"""Layouts that are timed on other numbers of instances."""


@dataclass(frozen=True)
class Effort:
    """Limits of a search.

    Attributes:
        budget: layouts that are timed.
        deadline_s: seconds after which no further layout is timed.
        ray: address of a Ray cluster, or "".
        processes: number of processes; 0 for the number of cores: then a script needs the guard
            ``if __name__ == "__main__"``.
        doublings: how often the smallest number of instances is doubled for comparison.
        tell: called with a line on progress.
    """

    budget: int = BUDGET
    deadline_s: float | None = None
    ray: str = ""
    processes: int = 1
    doublings: int = 0
    tell: Callable[[str], None] | None = None


@dataclass(frozen=True)
class Best:
    """Result of a search.

    Attributes:
        machine: the instances.
        step: the shortest step.
        others: each number of instances that was looked at, this one too, with its shortest step.
        looked_at: legal layouts.
        fitting: legal layouts that fit in HBM.
        timed: layouts that were timed.
    """

    machine: Machine
    step: TrainingStep
    others: tuple[tuple[Machine, TrainingStep], ...]
    looked_at: int
    fitting: int
    timed: int


@lru_cache(maxsize=64)
def best(
    model: Architecture,
    name: str,
    instances: int | None,
    request: LayoutRequest,
    effort: Effort | None = None,
    measured: MeasuredTimes | None = None,
) -> Best:
    """The best layout on instances of the type, or target, called `name`.

    Args:
        model: the architecture that is trained.
        name: instance type or target.
        instances: number of instances; None for the smallest number with a layout that fits.
        request: the fixed axes; the search chooses the others.
        effort: limits of the search.
        measured: a user's times of layers, which take precedence.

    Raises:
        BadInput: no layout is legal; gives the reason for the requested one.
        OutOfMemory: no layout fits; names the fullest stage of the smallest one.
    """
    looking = _Search(model, name, request, effort or Effort(), measured, time.monotonic())
    if instances is None:
        return looking.with_more_instances(looking.on_fewest_instances())
    return looking.with_fewer_instances(looking.on(machine(name, instances)))


@lru_cache(maxsize=64)
def best_on(
    model: Architecture,
    name: str,
    instances: int,
    request: LayoutRequest,
    effort: Effort | None = None,
) -> Best:
    """The best layout on exactly `instances`, without comparison with fewer.

    Raises:
        BadInput: no layout is legal.
        OutOfMemory: none has room.
    """
    looking = _Search(model, name, request, effort or Effort(), None, time.monotonic())
    return looking.on(machine(name, instances))


@dataclass(frozen=True)
class _Search:
    """A search of layouts on instances of one type.

    Attributes are the arguments of `best`, and the time at which it began.
    """

    model: Architecture
    name: str
    request: LayoutRequest
    effort: Effort
    measured: MeasuredTimes | None
    begun_s: float

    def on_fewest_instances(self) -> Best:
        """Best layout on the fewest instances with room; their number doubles from the least."""
        request = self.request
        plain = request.plain(machine(self.name))
        needed = plain.tensor * plain.pipeline * plain.context * (request.data or 1)
        ranks = machine(self.name).ranks_per_instance
        count = max(-(-needed // ranks), 1)
        if request.data is not None and request.tensor and request.pipeline:
            return self.on(machine(self.name, count))
        while True:
            try:
                return self.on(machine(self.name, count))
            except OutOfMemory:
                more = machine(self.name, 2 * count)
                if not more.instance.efa_bytes_per_s or 2 * count * ranks > self._most_ranks():
                    raise
                count *= 2

    def _most_ranks(self) -> int:
        """Ranks beyond which some have no work: sequences x layers x tokens."""
        depth = sum(tower.depth for tower in self.model.towers)
        return self.request.global_batch * depth * self.request.sequence

    def on(self, where: Machine) -> Best:
        """Best layout on all ranks of a machine."""
        model = self.model
        candidates = layouts(model, where, self.request)
        if not candidates:
            self._refuse(where)
        fits = roomy_layouts(model, where, candidates)
        if not fits:
            smallest = smallest_layout(model, candidates)
            memory.check(memory.stages(model, smallest), smallest, where)
        steps = self._steps(where)
        ranked = sorted(fits, key=steps.rough_s)
        chosen = self._fastest_layout(where, ranked)
        if chosen is None:
            smallest = smallest_layout(model, candidates)
            memory.check(memory.stages(model, smallest), smallest, where)
            raise OutOfMemory(f"no layout of {where.count} x {where.instance.name} has room")
        step = steps.step(chosen)
        timed = min(len(ranked), self.effort.budget)
        return Best(where, step, ((where, step),), len(candidates), len(fits), timed)

    def _refuse(self, where: Machine) -> NoReturn:
        """Raise the reason for which no layout is legal."""
        request = self.request
        plain = request.plain(where)
        if request.data is None and request.global_batch > 0:  # the number of data ranks follows
            plain = replace(plain, global_batch=plain.data * plain.micro_batch)
        check(plain, self.model, where)
        raise BadInput(
            f"no layout gives work to all {where.ranks:,} ranks of {where.count} x "
            f"{where.instance.name} with --global-batch {request.global_batch}",
            fix="use a larger batch or fewer instances",
        )

    def _steps(self, where: Machine) -> TrainingSteps:
        return TrainingSteps(self.model, where, measured=self.measured)

    def _fastest_layout(self, where: Machine, ranked: Sequence[Layout]) -> Layout | None:
        """Of the first layouts in `ranked`, the one of the shortest step; None if none has room."""
        effort = self.effort
        function = partial(
            layout_step_s,
            model=self.model,
            name=where.instance.name,
            count=where.count,
            lnc=where.lnc,
            measured=self.measured,
        )
        left_s = None
        if effort.deadline_s is not None:
            left_s = max(effort.deadline_s - (time.monotonic() - self.begun_s), 0.001)
        first = list(ranked[: effort.budget])
        tell = effort.tell
        times = search.map(
            function,
            [asdict(layout) for layout in first],
            ray=effort.ray,
            processes=effort.processes,
            deadline_s=left_s,
            tell=lambda done: tell(f"{done} of {len(first)} layouts") if tell else None,
        )
        pairs = [(time_s, at) for at, time_s in enumerate(times) if isinstance(time_s, float)]
        if not pairs:
            # A deadline that left no time at all takes the most promising one that has room.
            return next((layout for layout in ranked if _has_room(self.model, where, layout)), None)
        quick_s = _AS_GOOD * min(pairs)[0]
        return min((first[at] for time_s, at in pairs if time_s <= quick_s), key=_plainness)

    def with_fewer_instances(self, result: Best) -> Best:
        """The result, with the steps on half as many instances, a quarter, and so on."""
        others, count = list(result.others), result.machine.count
        for _ in range(_COUNT_HALVINGS):
            count //= 2
            fewer = self._rough_step(machine(self.name, count)) if count else None
            others += [] if fewer is None else [fewer]
        return replace(result, others=tuple(others))

    def with_more_instances(self, result: Best) -> Best:
        """The result, with the steps on more instances if these have a network."""
        others, count = list(result.others), result.machine.count
        if result.machine.instance.efa_bytes_per_s:
            for power in range(1, self.effort.doublings + 1):
                more = self._rough_step(machine(self.name, count << power))
                others += [] if more is None else [more]
        return replace(result, others=tuple(others))

    def _rough_step(self, where: Machine) -> tuple[Machine, TrainingStep] | None:
        """The shortest step of the most promising layouts with room; None if none has room."""
        steps = self._steps(where)
        candidates = roomy_layouts(self.model, where, layouts(self.model, where, self.request))
        ranked = sorted(candidates, key=steps.rough_s)
        roomy = (layout for layout in ranked if _has_room(self.model, where, layout))
        best = [steps.step(layout) for layout in islice(roomy, _LAYOUTS_TIMED_ELSEWHERE)]
        return (where, min(best, key=lambda step: step.step_s.p50)) if best else None


def _plainness(layout: Layout) -> tuple[int, ...]:
    """Sort key of equally fast layouts: a lower ZeRO stage, fewer axes, fewer ranks on each."""
    axes = (layout.context, layout.virtual, layout.pipeline, layout.expert, layout.tensor)
    return (layout.zero, sum(size > 1 for size in axes), *axes, layout.micro_batch)


def _has_room(model: Architecture, where: Machine, layout: Layout) -> bool:
    needed = memory.stages(model, layout)
    return max(stage.total for stage in needed) <= memory.room(where)


def layout_step_s(
    sizes: dict[str, Any],
    model: Architecture,
    name: str,
    count: int,
    lnc: int,
    measured: MeasuredTimes | None = None,
) -> Any:
    """Seconds of a step of the layout with these fields; "memory" if it has no room.

    A point of `trnsim.system.search.map`.
    """
    try:
        return _steps(model, name, count, lnc, measured).step(Layout(**sizes)).step_s.p50
    except OutOfMemory:
        return "memory"


@lru_cache(maxsize=4)
def _steps(
    model: Architecture, name: str, count: int, lnc: int, measured: MeasuredTimes | None
) -> TrainingSteps:
    return TrainingSteps(model, machine(name, count, lnc=lnc or None), measured=measured)


def front(points: Sequence[tuple[float, ...]]) -> list[int]:
    """Indices of the Pareto front: no other point is as good in all and better in one quantity.

    Each point has the same quantities; less of each is better.
    """
    return [
        at
        for at, point in enumerate(points)
        if not any(_is_better(rival, point) for rival in points)
    ]


def _is_better(point: tuple[float, ...], other: tuple[float, ...]) -> bool:
    pairs = list(zip(point, other, strict=True))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)
