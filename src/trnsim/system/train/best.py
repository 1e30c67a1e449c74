"""Search for the layout of the shortest step: rank all by a rough time, estimate the best ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from itertools import islice
from typing import Any, Final, NoReturn

from trnsim.errors import BadInput, OutOfMemory
from trnsim.estimate.measured import MeasuredTimes
from trnsim.place.machine import MOST_INSTANCES, Machine, machine
from trnsim.site import cache_key as site_key
from trnsim.site import cached, note_used, recorded_words
from trnsim.system import search
from trnsim.system.train import memory
from trnsim.system.train.candidates import LayoutRequest, fitting_layouts, layouts, smallest_layout
from trnsim.system.train.layout import Layout, check
from trnsim.system.train.step import TrainingStep, TrainingSteps
from trnsim.workload.architecture import Architecture

BUDGET: Final = 48
"""Default number of layouts whose step is estimated in full."""
_EQUAL_TIME_RATIO: Final = 1.005
"""Ratio below which two steps count as equally fast; then the simpler layout wins."""
_COUNT_HALVINGS: Final = 6
"""Number of times that the number of instances is halved, for comparison."""
_LAYOUTS_TIMED_ELSEWHERE: Final = 4
"""Layouts that are estimated on each other number of instances."""
_NO_WORK_FIX: Final = (
    "use a smaller --micro-batch, a --sequence that --cp divides, or a larger --global-batch: on "
    "more instances some ranks have no work"
)
_SEARCHED_FIELDS: Final = frozenset(
    ["tensor", "pipeline", "data", "context", "expert", "zero", "recompute", "micro_batch"]
)
"""Fields of a request that make a layout smaller or larger in memory."""


@dataclass(frozen=True)
class Effort:
    """Limits of a search.

    Attributes:
        budget: layouts whose step is estimated in full.
        deadline_s: seconds after which no further layout is estimated; None for no limit.
        ray: address of a Ray cluster, or "".
        processes: number of processes; 0 for the number of cores: then a script needs the guard
            ``if __name__ == "__main__"``.
        doublings: how often the smallest number of instances is doubled for comparison.
        tell: called with a line of progress.
    """

    budget: int = BUDGET
    deadline_s: float | None = None
    ray: str = ""
    processes: int = 1
    doublings: int = 0
    tell: Callable[[str], None] | None = None


@dataclass(frozen=True)
class BestLayout:
    """Result of a search.

    Attributes:
        step: the shortest step.
        machine_steps: for each number of instances that was tried, `machine` included, the
            instances and their shortest step.
        legal_layouts: number of legal layouts on `machine`.
        fitting_layouts: number of legal layouts that fit in HBM.
        timed_layouts: number of layouts whose step was estimated.
    """

    machine: Machine
    step: TrainingStep
    machine_steps: tuple[tuple[Machine, TrainingStep], ...]
    legal_layouts: int
    fitting_layouts: int
    timed_layouts: int


@cached(maxsize=64)
def best(
    model: Architecture,
    name: str,
    instances: int | None,
    request: LayoutRequest,
    effort: Effort | None = None,
    measured: MeasuredTimes | None = None,
) -> BestLayout:
    """The best layout on instances of the type, or target, called `name`.

    Args:
        model: the architecture that is trained.
        name: instance type or target.
        instances: number of instances; None for the smallest number with a layout that fits.
        request: the fixed fields of the layout; the search chooses the others.
        effort: limits of the search.
        measured: a user's times of layers, which take precedence.

    Raises:
        BadInput: no layout is legal; gives the reason for the requested one.
        OutOfMemory: no layout fits; names the fullest stage of the smallest one.
    """
    layout_search = _Search(model, name, request, effort or Effort(), measured, time.monotonic())
    if instances is None:
        return layout_search.with_more_instances(layout_search.on_fewest_instances())
    return layout_search.with_fewer_instances(layout_search.on(machine(name, instances)))


@cached(maxsize=64)
def best_on(
    model: Architecture,
    name: str,
    instances: int,
    request: LayoutRequest,
    effort: Effort | None = None,
) -> BestLayout:
    """The best layout on exactly `instances` instances, without comparison with fewer.

    Raises:
        BadInput: no layout is legal.
        OutOfMemory: no layout fits in memory.
    """
    layout_search = _Search(model, name, request, effort or Effort(), None, time.monotonic())
    return layout_search.on(machine(name, instances))


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
    start_s: float

    def on_fewest_instances(self) -> BestLayout:
        """Best layout on the fewest instances that hold the model.

        Their number doubles, from the fewest that have the requested ranks.
        """
        request = self.request
        plain_layout = request.plain(machine(self.name))
        layout_ranks = (
            plain_layout.tensor * plain_layout.pipeline * plain_layout.context * (request.data or 1)
        )
        ranks = machine(self.name).ranks_per_instance
        count = max(-(-layout_ranks // ranks), 1)
        if request.data is not None and request.tensor and request.pipeline:
            return self.on(machine(self.name, count))
        first_error: OutOfMemory | None = None
        while True:
            try:
                return self.on(machine(self.name, count))
            except OutOfMemory as error:
                is_last = 2 * count > MOST_INSTANCES or 2 * count * ranks > self._most_ranks()
                if is_last or not machine(self.name).instance.efa_bytes_per_s:
                    raise
                first_error = error
                count *= 2
            except BadInput:
                if first_error is None:
                    raise
                raise OutOfMemory(first_error.reason, fix=_NO_WORK_FIX) from None

    def _most_ranks(self) -> int:
        """Number of ranks beyond which some have no work: sequences x layers x tokens."""
        depth = self.model.depth
        return self.request.global_batch * depth * self.request.sequence

    def on(self, machine: Machine) -> BestLayout:
        """Best layout on all ranks of a machine."""
        model = self.model
        candidates = layouts(model, machine, self.request)
        if not candidates:
            self._refuse(machine)
        fitting_candidates = fitting_layouts(model, machine, candidates)
        steps = self._steps(machine)
        ranked_layouts = sorted(fitting_candidates, key=steps.rough_s)
        fastest_layout = self._fastest_layout(machine, ranked_layouts)
        if fastest_layout is None:
            self._refuse_for_room(machine, candidates)
        step = steps.step(fastest_layout)
        timed_count = min(len(ranked_layouts), self.effort.budget)
        return BestLayout(
            machine, step, ((machine, step),), len(candidates), len(fitting_candidates), timed_count
        )

    def _refuse(self, machine: Machine) -> NoReturn:
        """Raise the reason for which no layout is legal."""
        request = self.request
        plain_layout = request.plain(machine)
        if request.data is None and request.global_batch > 0:  # the number of data ranks follows
            plain_layout = replace(
                plain_layout, global_batch=plain_layout.data * plain_layout.micro_batch
            )
        check(plain_layout, self.model, machine)
        raise BadInput(
            f"no layout gives work to all {machine.ranks:,} ranks of {machine.count} x "
            f"{machine.instance.name} with --global-batch {request.global_batch}",
            fix="use a larger batch or fewer instances",
        )

    def _refuse_for_room(self, machine: Machine, candidates: list[Layout]) -> NoReturn:
        """Raise what the smallest layout needs, and what would have room."""
        smallest_candidate = smallest_layout(self.model, candidates)
        size = f"{machine.count:,} x {machine.instance.name}"
        reason, fix = f"no layout of {size} has room", ""
        try:
            memory.check(memory.stages(self.model, smallest_candidate), smallest_candidate, machine)
        except OutOfMemory as error:
            reason = (
                f"none of {len(candidates):,} layouts fits {size}: with {smallest_candidate}, "
                f"{error.reason}"
            )
            fix = error.fix
        if not _SEARCHED_FIELDS & self.request.fixed_fields.keys():
            fix = (
                "use more instances: without --instances, the fewest that fit are taken"
                if machine.instance.efa_bytes_per_s
                else "name a type with more memory, or with EFA, of which several train together"
            )
        raise OutOfMemory(reason, fix=fix)

    def _steps(self, machine: Machine) -> TrainingSteps:
        return TrainingSteps(self.model, machine, measured=self.measured)

    def _fastest_layout(self, machine: Machine, ranked_layouts: Sequence[Layout]) -> Layout | None:
        """The layout of the shortest step among the first `ranked_layouts`; None if none fits."""
        effort = self.effort
        function = partial(
            layout_step_s,
            model=self.model,
            name=machine.instance.name,
            count=machine.count,
            lnc=machine.lnc,
            measured=self.measured,
        )
        remaining_s = None
        if effort.deadline_s is not None:
            remaining_s = max(effort.deadline_s - (time.monotonic() - self.start_s), 0.001)
        timed_layouts = list(ranked_layouts[: effort.budget])
        tell = effort.tell
        times = search.map(
            function,
            [asdict(layout) for layout in timed_layouts],
            ray=effort.ray,
            processes=effort.processes,
            deadline_s=remaining_s,
            tell=lambda count: tell(f"{count} of {len(timed_layouts)} layouts") if tell else None,
        )
        pairs = [(time_s, index) for index, time_s in enumerate(times) if isinstance(time_s, float)]
        if not pairs:
            # The deadline left no time: take the layout of the shortest rough time that fits.
            return next(
                (layout for layout in ranked_layouts if _fits(self.model, machine, layout)), None
            )
        equal_limit_s = _EQUAL_TIME_RATIO * min(pairs)[0]
        return min(
            (timed_layouts[index] for time_s, index in pairs if time_s <= equal_limit_s),
            key=_plainness,
        )

    def with_fewer_instances(self, result: BestLayout) -> BestLayout:
        """`result`, with the shortest steps on half as many instances, a quarter, ... added."""
        machine_steps, count = list(result.machine_steps), result.machine.count
        for _ in range(_COUNT_HALVINGS):
            count //= 2
            step = self._rough_step(machine(self.name, count)) if count else None
            machine_steps += [] if step is None else [step]
        return replace(result, machine_steps=tuple(machine_steps))

    def with_more_instances(self, result: BestLayout) -> BestLayout:
        """`result`, with the shortest steps on twice as many instances, four times, ... added.

        `Effort.doublings` limits the number of them. Without EFA, instances do not train together,
        and nothing is added.
        """
        machine_steps, count = list(result.machine_steps), result.machine.count
        if result.machine.instance.efa_bytes_per_s:
            for _ in range(self.effort.doublings):
                count *= 2
                step = (
                    self._rough_step(machine(self.name, count)) if count <= MOST_INSTANCES else None
                )
                machine_steps += [] if step is None else [step]
        return replace(result, machine_steps=tuple(machine_steps))

    def _rough_step(self, machine: Machine) -> tuple[Machine, TrainingStep] | None:
        """`machine`, and its shortest step of a few layouts that fit; None if none fits."""
        steps = self._steps(machine)
        candidates = fitting_layouts(
            self.model, machine, layouts(self.model, machine, self.request)
        )
        ranked_layouts = sorted(candidates, key=steps.rough_s)
        fitting_candidates = (
            layout for layout in ranked_layouts if _fits(self.model, machine, layout)
        )
        timed_steps = [
            steps.step(layout) for layout in islice(fitting_candidates, _LAYOUTS_TIMED_ELSEWHERE)
        ]
        return (
            (machine, min(timed_steps, key=lambda step: step.step_s.p50)) if timed_steps else None
        )


def _plainness(layout: Layout) -> tuple[int, ...]:
    """Sort key, simple layouts first: low ZeRO stage, few axes in use, few ranks on each."""
    axes = (layout.context, layout.virtual, layout.pipeline, layout.expert, layout.tensor)
    return (layout.zero, sum(size > 1 for size in axes), *axes, layout.micro_batch)


def _fits(model: Architecture, machine: Machine, layout: Layout) -> bool:
    """True if the fullest stage of a layout has room in the memory of a rank."""
    stages = memory.stages(model, layout)
    return max(stage.total for stage in stages) <= memory.usable_bytes(machine)


def layout_step_s(
    sizes: dict[str, Any],
    model: Architecture,
    name: str,
    count: int,
    lnc: int,
    measured: MeasuredTimes | None = None,
) -> Any:
    """Seconds of a step of one layout, as JSON values for `trnsim.system.search.map`.

    Args:
        sizes: the fields of the layout.
        model: the architecture.
        name: instance type.
        count: number of instances.
        lnc: NeuronCores of a rank; 0 on GPUs.
        measured: a user's times of layers.

    Returns:
        Seconds, or "memory" if the layout does not fit.
    """
    try:
        steps, provenances = _steps(model, name, count, lnc, measured, site_key())
        with recorded_words() as step_provenances:
            step_s = steps.step(Layout(**sizes)).step_s.p50
    except OutOfMemory:
        return "memory"
    provenances |= step_provenances
    for provenance in provenances:
        note_used(provenance)
    return step_s


@lru_cache(maxsize=4)
def _steps(
    model: Architecture,
    name: str,
    count: int,
    lnc: int,
    measured: MeasuredTimes | None,
    _site: str,
) -> tuple[TrainingSteps, set[str]]:
    """The times of steps on a machine, and the provenances of corrections in them.

    `_site` is a part of the cache's key: other corrections of a site make other times.
    """
    with recorded_words() as provenances:
        steps = TrainingSteps(model, machine(name, count, lnc=lnc or None), measured=measured)
    return steps, provenances


def front(points: Sequence[tuple[float, ...]]) -> list[int]:
    """Indices of the Pareto front of `points`, whose coordinates are all better when lower.

    A point is on it unless another is as low in all coordinates and lower in one.
    """
    return [
        index
        for index, point in enumerate(points)
        if not any(_is_better(rival, point) for rival in points)
    ]


def _is_better(point: tuple[float, ...], other: tuple[float, ...]) -> bool:
    pairs = list(zip(point, other, strict=True))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)
