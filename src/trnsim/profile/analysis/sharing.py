"""Work shared between engines: instructions of a busy engine that another would finish sooner.

A dependent instruction on another engine waits for a semaphore as well, so chains of instructions
are also tried as a whole. The better of the two is proposed.
"""

from __future__ import annotations

from typing import Final

from trnsim.isa import Engine
from trnsim.profile.analysis import what_if
from trnsim.profile.analysis.examination import Examination, Repair
from trnsim.profile.units import percent_text
from trnsim.timing import EnginePlacement

_HELPER_ENGINES: Final = (Engine.vector, Engine.scalar, Engine.gpsimd)


def one_engine_alone(examined: Examination, threshold_share: float) -> Repair | None:
    """The best sharing of the busiest engine's work with one that is far less busy."""
    if not examined.busy_s:
        return None
    busiest = max(examined.busy_s, key=examined.busy_s.__getitem__)
    if examined.busy_s[busiest] < threshold_share * examined.base_time_s:
        return None
    repairs: list[Repair] = []
    for helper in _HELPER_ENGINES:
        if examined.busy_s.get(helper, 0.0) <= threshold_share * examined.busy_s[busiest]:
            repairs += _sharing_repairs(examined, busiest, helper)
    return min(repairs, key=lambda repair: repair.device_time_s, default=None)


def _sharing_repairs(examined: Examination, busiest: Engine, helper: Engine) -> list[Repair]:
    """Repairs that move instructions of `busiest` to `helper`: one by one, or chains as a whole."""
    helper_placements = {
        number: placement
        for number, checked in enumerate(examined.program.checked)
        if checked.engine is busiest
        and (placement := what_if.move(checked.instruction, examined.core, helper)) is not None
    }
    movable = examined.issued_indices(list(helper_placements)).tolist()
    if not movable:
        return []
    ways = {"": [[index] for index in movable], ", chains as a whole": _chains(examined, movable)}
    divisions: dict[tuple[int, ...], str] = {}
    for grouping, groups in ways.items():
        moved = _helper_instructions(examined, groups, helper_placements, (busiest, helper))
        if moved:
            divisions.setdefault(tuple(moved), grouping)
    return [
        _repair(examined, moved, helper_placements, (busiest, helper), grouping)
        for moved, grouping in divisions.items()
    ]


def _chains(examined: Examination, movable: list[int]) -> list[list[int]]:
    """`movable` in groups that depend on each other directly."""
    waits_for = examined.program.waits_for
    group_of: dict[int, list[int]] = {}
    for index in movable:
        group = next((group_of[i] for i in waits_for(index) if i in group_of), [])
        group.append(index)
        group_of[index] = group
    return list({id(group): group for group in group_of.values()}.values())


def _helper_instructions(
    examined: Examination,
    groups: list[list[int]],
    helper_placements: dict[int, EnginePlacement],
    engines: tuple[Engine, Engine],
) -> list[int]:
    """The instructions that move to the second engine if each group goes where it ends sooner."""
    which_of, placements = examined.program.which, examined.recorded_placements
    group_at = {group[0]: group for group in groups}
    movable = {index for group in groups for index in group}
    loads_s = dict.fromkeys(engines, 0.0)
    busiest, helper = engines
    moved: list[int] = []
    for index, which in enumerate(which_of):
        engine, cost = placements[which]
        if index not in movable:
            if engine in loads_s:
                loads_s[engine] += cost.interval_s
            continue
        group = group_at.get(index, [])
        stays_s = loads_s[busiest] + sum(placements[which_of[i]].cost.interval_s for i in group)
        goes_s = loads_s[helper] + sum(
            helper_placements[which_of[i]].cost.interval_s for i in group
        )
        if goes_s < stays_s:
            loads_s[helper] = goes_s
            moved += group
        else:
            loads_s[busiest] = stays_s
    return sorted(moved)


def _repair(
    examined: Examination,
    moved: tuple[int, ...],
    helper_placements: dict[int, EnginePlacement],
    engines: tuple[Engine, Engine],
    grouping: str,
) -> Repair:
    """The repair that gives the instructions `moved` to the second of `engines`."""
    program, busy_s = examined.program, examined.busy_s
    busiest, helper = engines
    movable = examined.issued_indices(list(helper_placements))
    figures = {
        "busiest": busiest.label,
        "share": percent_text(busy_s[busiest] / examined.base_time_s),
        "other": helper.label,
        "other_share": percent_text(busy_s.get(helper, 0.0) / examined.base_time_s),
        "n": len(moved),
        "movable": len(movable),
        "opcodes": ", ".join(sorted({program.instruction(index).opcode for index in moved})),
        "name": f"nisa.engine.{helper.name}",
        "how": grouping,
    }
    time_s = examined.time_after_s({}, {i: helper_placements[program.which[i]] for i in moved})
    return Repair(movable, time_s, figures)
