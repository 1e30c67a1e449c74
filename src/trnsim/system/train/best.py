"""The best layouts of a machine: all are looked at roughly, the most promising ones are timed."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

from trnsim.errors import BadInput, OutOfMemory
from trnsim.system import search
from trnsim.system.machine import Machine, machine
from trnsim.system.train import memory
from trnsim.system.train.candidates import fitting, layouts, least
from trnsim.system.train.layout import Layout, check
from trnsim.system.train.step import Step, Steps

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trnsim.system.train.candidates import Asked
    from trnsim.system.workload.architecture import Architecture

BUDGET: Final = 48
"""Layouts that are timed, unless told."""
_AS_GOOD: Final = 1.005
"""Steps nearer than this are the same; the plainer layout is taken."""
_SAME: Final = 1.02
"""Times nearer than this are the same to a search that compares numbers of instances."""
_HALVINGS: Final = 6


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
        note: what a reader must know: fewer instances that are not slower.
    """

    machine: Machine
    step: Step
    others: tuple[tuple[Machine, Step], ...]
    looked_at: int
    fitting: int
    timed: int
    note: str


@lru_cache(maxsize=64)
def best(
    model: Architecture,
    name: str,
    instances: int | None,
    asked: Asked,
    effort: Effort | None = None,
) -> Best:
    """The best layout on instances of the type, or target, called `name`.

    Args:
        model: what is trained.
        name: the type.
        instances: how many; the smallest number that has a layout with room, where it is None.
        asked: what is not searched.
        effort: what the search may take.

    Raises:
        BadInput: no layout is legal, with the reason for one that was asked.
        OutOfMemory: none has room, with the stage of the smallest one.
    """
    effort = effort or Effort()
    begun_s = time.monotonic()
    if instances is None:
        return _enlarged(model, name, _smallest(model, name, asked, effort, begun_s), asked, effort)
    found = _on(model, machine(name, instances), asked, effort, begun_s)
    return _compared(model, name, found, asked)


def _smallest(model: Architecture, name: str, asked: Asked, effort: Effort, begun_s: float) -> Best:
    """On the smallest number of instances, of powers of two or as many as was asked, with room."""
    fixed = asked.plain(machine(name))
    needed = fixed.tensor * fixed.pipeline * fixed.context * (asked.data or 1)
    each = machine(name).ranks_per_instance
    count = max(-(-needed // each), 1)
    if asked.data is not None and asked.tensor and asked.pipeline:
        return _on(model, machine(name, count), asked, effort, begun_s)
    while True:
        try:
            return _on(model, machine(name, count), asked, effort, begun_s)
        except OutOfMemory:
            more = machine(name, 2 * count)
            if not more.instance.efa_bytes_per_s or 2 * count * each > _most_ranks(model, asked):
                raise
            count *= 2


def _most_ranks(model: Architecture, asked: Asked) -> int:
    """Ranks beyond which a sequence, a layer and a head each have one."""
    depth = sum(tower.depth for tower in model.towers)
    return asked.global_batch * depth * asked.sequence


def _on(model: Architecture, where: Machine, asked: Asked, effort: Effort, begun_s: float) -> Best:
    made = layouts(model, where, asked)
    if not made:
        plain = asked.plain(where)
        if asked.data is None and asked.global_batch > 0:  # the number of data ranks follows
            plain = replace(plain, global_batch=plain.data * plain.micro_batch)
        check(plain, model, where)
        raise BadInput(
            f"no layout gives work to all {where.ranks:,} ranks of {where.count} x "
            f"{where.instance.name} with --global-batch {asked.global_batch}",
            fix="use a larger batch or fewer instances",
        )
    fits = fitting(model, where, made)
    if not fits:
        smallest = least(model, made)
        memory.check(memory.stages(model, smallest), smallest, where)
    steps = Steps(model, where)
    ranked = sorted(fits, key=steps.rough_s)
    chosen = _timed(model, where, ranked, effort, begun_s)
    if chosen is None:
        smallest = least(model, made)
        memory.check(memory.stages(model, smallest), smallest, where)
        raise OutOfMemory(f"no layout of {where.count} x {where.instance.name} has room")
    step = steps.step(chosen)
    timed = min(len(ranked), effort.budget)
    return Best(where, step, ((where, step),), len(made), len(fits), timed, "")


def _timed(
    model: Architecture,
    where: Machine,
    ranked: Sequence[Layout],
    effort: Effort,
    begun_s: float,
) -> Layout | None:
    """The layout with the shortest step of the first ones, or None where none has room."""
    function = partial(
        point, model=model, name=where.instance.name, count=where.count, lnc=where.lnc
    )
    left_s = None
    if effort.deadline_s is not None:
        left_s = max(effort.deadline_s - (time.monotonic() - begun_s), 0.001)
    first = list(ranked[: effort.budget])
    times = search.map(
        function,
        [asdict(one) for one in first],
        ray=effort.ray,
        processes=effort.processes,
        deadline_s=left_s,
        tell=lambda done: effort.tell(f"{done} of {len(first)} layouts") if effort.tell else None,
    )
    pairs = [(time_s, at) for at, time_s in enumerate(times) if isinstance(time_s, float)]
    if not pairs:
        # A deadline that left no time at all takes the most promising one that has room.
        return next((one for one in ranked if _has_room(model, where, one)), None)
    quick_s = _AS_GOOD * min(pairs)[0]
    return min((first[at] for time_s, at in pairs if time_s <= quick_s), key=_plainness)


def _plainness(layout: Layout) -> tuple[int, ...]:
    """What comes first among layouts that are as good: less moved, fewer axes, fewer ranks each."""
    axes = (layout.context, layout.virtual, layout.pipeline, layout.expert, layout.tensor)
    return (layout.zero, sum(size > 1 for size in axes), *axes, layout.micro_batch)


def _has_room(model: Architecture, where: Machine, layout: Layout) -> bool:
    needed = memory.stages(model, layout)
    return max(one.total for one in needed) <= memory.room(where)


def point(given: dict[str, Any], model: Architecture, name: str, count: int, lnc: int) -> Any:
    """Seconds of a step of a layout, which is given as its fields; "memory" where it has no room.

    A point of `trnsim.system.search.map`.
    """
    try:
        return _steps(model, name, count, lnc).step(Layout(**given)).step_s.p50
    except OutOfMemory:
        return "memory"


@lru_cache(maxsize=4)
def _steps(model: Architecture, name: str, count: int, lnc: int) -> Steps:
    return Steps(model, machine(name, count, lnc=lnc or None))


def _compared(model: Architecture, name: str, found: Best, asked: Asked) -> Best:
    """What was found beside fewer instances: half as many, a quarter, and so on.

    The note names the fewest that are not slower: chips that gain nothing are not passed over.
    """
    others, count = list(found.others), found.machine.count
    note = ""
    for _ in range(_HALVINGS):
        count //= 2
        if not count or asked.data is not None:
            break
        fewer = _roughly(model, machine(name, count), asked)
        if fewer is None:
            continue
        others.append(fewer)
        if fewer[1].step_s.p50 <= _SAME * found.step.step_s.p50:
            note = f"{count} instances are not slower: {fewer[1].layout}"
    return replace(found, others=tuple(others), note=note)


def _enlarged(model: Architecture, name: str, found: Best, asked: Asked, effort: Effort) -> Best:
    """What was found beside more instances, where these can exchange."""
    others, count = list(found.others), found.machine.count
    if asked.data is None and found.machine.instance.efa_bytes_per_s:
        for power in range(1, effort.doublings + 1):
            more = _roughly(model, machine(name, count << power), asked)
            others += [] if more is None else [more]
    return replace(found, others=tuple(others))


def _roughly(model: Architecture, where: Machine, asked: Asked) -> tuple[Machine, Step] | None:
    """The step of the most promising layout that has room; None where there is none."""
    steps = Steps(model, where)
    ranked = sorted(fitting(model, where, layouts(model, where, asked)), key=steps.rough_s)
    first = next((one for one in ranked if _has_room(model, where, one)), None)
    return None if first is None else (where, steps.step(first))


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
