"""The best layouts of a machine: all are looked at roughly, the most promising ones are timed."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NoReturn

from trnsim.errors import BadInput, OutOfMemory
from trnsim.place.machine import Machine, machine
from trnsim.system import search
from trnsim.system.train import memory
from trnsim.system.train.candidates import fitting, layouts, least
from trnsim.system.train.layout import Layout, check
from trnsim.system.train.step import Step, Steps

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trnsim.estimate.measured import Measured
    from trnsim.system.train.candidates import Asked
    from trnsim.workload.architecture import Architecture

BUDGET: Final = 48
"""Layouts that are timed, unless told."""
_AS_GOOD: Final = 1.005
"""Steps nearer than this are the same; the plainer layout is taken."""
_HALVINGS: Final = 6
_ROUGHLY: Final = 4
"""Layouts that are timed on other numbers of instances."""


@dataclass(frozen=True)
class Effort:
    """What a search may take.

    Attributes:
        budget: layouts that are timed.
        deadline_s: seconds after which no further one is.
        ray: address of a Ray cluster, or "".
        processes: of this machine; 0 for as many as it has cores: then a script needs the guard
            ``if __name__ == "__main__"``.
        doublings: of the smallest number of instances, which are looked at besides.
        tell: called with what is done.
    """

    budget: int = BUDGET
    deadline_s: float | None = None
    ray: str = ""
    processes: int = 1
    doublings: int = 0
    tell: Callable[[str], None] | None = None


@dataclass(frozen=True)
class Best:
    """What a search found.

    Attributes:
        machine: where.
        step: the shortest step.
        others: of every number of instances that was looked at, its shortest step, with its own.
        looked_at: legal layouts.
        fitting: those that HBM has room for.
        timed: those that were timed.
    """

    machine: Machine
    step: Step
    others: tuple[tuple[Machine, Step], ...]
    looked_at: int
    fitting: int
    timed: int


@lru_cache(maxsize=64)
def best(
    model: Architecture,
    name: str,
    instances: int | None,
    asked: Asked,
    effort: Effort | None = None,
    measured: Measured | None = None,
) -> Best:
    """The best layout on instances of the type, or target, called `name`.

    Args:
        model: what is trained.
        name: the type.
        instances: how many; the smallest number that has a layout with room, where it is None.
        asked: what is not searched.
        effort: what the search may take.
        measured: a user's times of layers, which win.

    Raises:
        BadInput: no layout is legal, with the reason for one that was asked.
        OutOfMemory: none has room, with the stage of the smallest one.
    """
    looking = _Search(model, name, asked, effort or Effort(), measured, time.monotonic())
    if instances is None:
        return looking.enlarged(looking.smallest())
    return looking.compared(looking.on(machine(name, instances)))


@lru_cache(maxsize=64)
def fixed(
    model: Architecture, name: str, instances: int, asked: Asked, effort: Effort | None = None
) -> Best:
    """The best layout on exactly `instances`, without a look at fewer.

    Raises:
        BadInput: no layout is legal.
        OutOfMemory: none has room.
    """
    looking = _Search(model, name, asked, effort or Effort(), None, time.monotonic())
    return looking.on(machine(name, instances))


@dataclass(frozen=True)
class _Search:
    """A search of layouts on instances of one type.

    Attributes are the arguments of `best`, and the time at which it began.
    """

    model: Architecture
    name: str
    asked: Asked
    effort: Effort
    measured: Measured | None
    begun_s: float

    def smallest(self) -> Best:
        """On the smallest number of instances with room: powers of two, or what was asked."""
        asked = self.asked
        fixed = asked.plain(machine(self.name))
        needed = fixed.tensor * fixed.pipeline * fixed.context * (asked.data or 1)
        each = machine(self.name).ranks_per_instance
        count = max(-(-needed // each), 1)
        if asked.data is not None and asked.tensor and asked.pipeline:
            return self.on(machine(self.name, count))
        while True:
            try:
                return self.on(machine(self.name, count))
            except OutOfMemory:
                more = machine(self.name, 2 * count)
                if not more.instance.efa_bytes_per_s or 2 * count * each > self._most_ranks():
                    raise
                count *= 2

    def _most_ranks(self) -> int:
        """Ranks beyond which a sequence, a layer and a head each have one."""
        depth = sum(tower.depth for tower in self.model.towers)
        return self.asked.global_batch * depth * self.asked.sequence

    def on(self, where: Machine) -> Best:
        """On all ranks of a machine."""
        model = self.model
        made = layouts(model, where, self.asked)
        if not made:
            self._refuse(where)
        fits = fitting(model, where, made)
        if not fits:
            smallest = least(model, made)
            memory.check(memory.stages(model, smallest), smallest, where)
        steps = self._steps(where)
        ranked = sorted(fits, key=steps.rough_s)
        chosen = self._timed(where, ranked)
        if chosen is None:
            smallest = least(model, made)
            memory.check(memory.stages(model, smallest), smallest, where)
            raise OutOfMemory(f"no layout of {where.count} x {where.instance.name} has room")
        step = steps.step(chosen)
        timed = min(len(ranked), self.effort.budget)
        return Best(where, step, ((where, step),), len(made), len(fits), timed)

    def _refuse(self, where: Machine) -> NoReturn:
        """Say why no layout is legal."""
        asked = self.asked
        plain = asked.plain(where)
        if asked.data is None and asked.global_batch > 0:  # the number of data ranks follows
            plain = replace(plain, global_batch=plain.data * plain.micro_batch)
        check(plain, self.model, where)
        raise BadInput(
            f"no layout gives work to all {where.ranks:,} ranks of {where.count} x "
            f"{where.instance.name} with --global-batch {asked.global_batch}",
            fix="use a larger batch or fewer instances",
        )

    def _steps(self, where: Machine) -> Steps:
        return Steps(self.model, where, measured=self.measured)

    def _timed(self, where: Machine, ranked: Sequence[Layout]) -> Layout | None:
        """The layout with the shortest step of the first ones, or None where none has room."""
        effort = self.effort
        function = partial(
            point,
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
            [asdict(one) for one in first],
            ray=effort.ray,
            processes=effort.processes,
            deadline_s=left_s,
            tell=lambda done: tell(f"{done} of {len(first)} layouts") if tell else None,
        )
        pairs = [(time_s, at) for at, time_s in enumerate(times) if isinstance(time_s, float)]
        if not pairs:
            # A deadline that left no time at all takes the most promising one that has room.
            return next((one for one in ranked if _has_room(self.model, where, one)), None)
        quick_s = _AS_GOOD * min(pairs)[0]
        return min((first[at] for time_s, at in pairs if time_s <= quick_s), key=_plainness)

    def compared(self, found: Best) -> Best:
        """What was found beside fewer instances: half as many, a quarter, and so on."""
        others, count = list(found.others), found.machine.count
        for _ in range(_HALVINGS):
            count //= 2
            fewer = self._roughly(machine(self.name, count)) if count else None
            others += [] if fewer is None else [fewer]
        return replace(found, others=tuple(others))

    def enlarged(self, found: Best) -> Best:
        """What was found beside more instances, where these can exchange."""
        others, count = list(found.others), found.machine.count
        if found.machine.instance.efa_bytes_per_s:
            for power in range(1, self.effort.doublings + 1):
                more = self._roughly(machine(self.name, count << power))
                others += [] if more is None else [more]
        return replace(found, others=tuple(others))

    def _roughly(self, where: Machine) -> tuple[Machine, Step] | None:
        """The shortest step of the most promising layouts with room; None where there is none."""
        steps = self._steps(where)
        made = fitting(self.model, where, layouts(self.model, where, self.asked))
        ranked = sorted(made, key=steps.rough_s)
        roomy = (one for one in ranked if _has_room(self.model, where, one))
        found = [steps.step(one) for one in islice(roomy, _ROUGHLY)]
        return (where, min(found, key=lambda one: one.step_s.p50)) if found else None


def _plainness(layout: Layout) -> tuple[int, ...]:
    """What comes first among layouts that are as good: less moved, fewer axes, fewer ranks each."""
    axes = (layout.context, layout.virtual, layout.pipeline, layout.expert, layout.tensor)
    return (layout.zero, sum(size > 1 for size in axes), *axes, layout.micro_batch)


def _has_room(model: Architecture, where: Machine, layout: Layout) -> bool:
    needed = memory.stages(model, layout)
    return max(one.total for one in needed) <= memory.room(where)


def point(
    given: dict[str, Any],
    model: Architecture,
    name: str,
    count: int,
    lnc: int,
    measured: Measured | None = None,
) -> Any:
    """Seconds of a step of a layout, which is given as its fields; "memory" where it has no room.

    A point of `trnsim.system.search.map`.
    """
    try:
        return _steps(model, name, count, lnc, measured).step(Layout(**given)).step_s.p50
    except OutOfMemory:
        return "memory"


@lru_cache(maxsize=4)
def _steps(
    model: Architecture, name: str, count: int, lnc: int, measured: Measured | None
) -> Steps:
    return Steps(model, machine(name, count, lnc=lnc or None), measured=measured)


def front(points: Sequence[tuple[float, ...]]) -> list[int]:
    """Places of the points that no other one is as good as in everything and better in something.

    Each point has the same quantities, of which less is better.
    """
    return [
        at for at, one in enumerate(points) if not any(_is_better(other, one) for other in points)
    ]


def _is_better(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    pairs = list(zip(one, other, strict=True))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)
