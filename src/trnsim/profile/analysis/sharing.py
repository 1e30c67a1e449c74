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


def one_engine_alone(examination: Examination, threshold_share: float) -> Repair | None:
    """The best sharing of the busiest engine's work with one that is far less busy."""
    if not examination.busy_s:
        return None
    busiest = max(examination.busy_s, key=examination.busy_s.__getitem__)
    if examination.busy_s[busiest] < threshold_share * examination.base_time_s:
        return None
    repairs: list[Repair] = []
    for helper in _HELPER_ENGINES:
        if examination.busy_s.get(helper, 0.0) <= threshold_share * examination.busy_s[busiest]:
            repairs += _sharing_repairs(examination, busiest, helper)
    return min(repairs, key=lambda repair: repair.device_time_s, default=None)


def _sharing_repairs(examination: Examination, busiest: Engine, helper: Engine) -> list[Repair]:
    """Repairs that move instructions of `busiest` to `helper`: one by one, or chains as a whole."""
    helper_placements = {
        number: placement
        for number, checked in enumerate(examination.program.checked)
        if checked.engine is busiest
        and (placement := what_if.move(checked.instruction, examination.core, helper)) is not None
    }
    movable = examination.issued_indices(list(helper_placements)).tolist()
    if not movable:
        return []
    groupings = {
        "": [[index] for index in movable],
        ", chains as a whole": _chains(examination, movable),
    }
    divisions: dict[tuple[int, ...], str] = {}
    for grouping, groups in groupings.items():
        moved_instructions = _helper_instructions(
            examination, groups, helper_placements, (busiest, helper)
        )
        if moved_instructions:
            divisions.setdefault(tuple(moved_instructions), grouping)
    return [
        _repair(examination, moved_instructions, helper_placements, (busiest, helper), grouping)
        for moved_instructions, grouping in divisions.items()
    ]


def _chains(examination: Examination, movable: list[int]) -> list[list[int]]:
    """`movable` in groups that depend on each other directly."""
    waits_for = examination.program.waits_for
    group_of: dict[int, list[int]] = {}
    for index in movable:
        group = next((group_of[i] for i in waits_for(index) if i in group_of), [])
        group.append(index)
        group_of[index] = group
    return list({id(group): group for group in group_of.values()}.values())


def _helper_instructions(
    examination: Examination,
    groups: list[list[int]],
    helper_placements: dict[int, EnginePlacement],
    engines: tuple[Engine, Engine],
) -> list[int]:
    """The instructions that move to the second engine if each group goes where it ends sooner."""
    which_of, placements = examination.program.which, examination.recorded_placements
    group_at = {group[0]: group for group in groups}
    movable = {index for group in groups for index in group}
    loads_s = dict.fromkeys(engines, 0.0)
    busiest, helper = engines
    moved_instructions: list[int] = []
    for index, which in enumerate(which_of):
        engine, cost = placements[which]
        if index not in movable:
            if engine in loads_s:
                loads_s[engine] += cost.interval_s
            continue
        group = group_at.get(index, [])
        busiest_s = loads_s[busiest] + sum(placements[which_of[i]].cost.interval_s for i in group)
        helper_s = loads_s[helper] + sum(
            helper_placements[which_of[i]].cost.interval_s for i in group
        )
        if helper_s < busiest_s:
            loads_s[helper] = helper_s
            moved_instructions += group
        else:
            loads_s[busiest] = busiest_s
    return sorted(moved_instructions)


def _repair(
    examination: Examination,
    moved_instructions: tuple[int, ...],
    helper_placements: dict[int, EnginePlacement],
    engines: tuple[Engine, Engine],
    grouping: str,
) -> Repair:
    """The repair that gives the instructions `moved_instructions` to the second of `engines`."""
    program, busy_s = examination.program, examination.busy_s
    busiest, helper = engines
    movable = examination.issued_indices(list(helper_placements))
    figures = {
        "busiest": busiest.label,
        "share": percent_text(busy_s[busiest] / examination.base_time_s),
        "other": helper.label,
        "other_share": percent_text(busy_s.get(helper, 0.0) / examination.base_time_s),
        "n": len(moved_instructions),
        "movable": len(movable),
        "opcodes": ", ".join(
            sorted({program.instruction(index).opcode for index in moved_instructions})
        ),
        "name": f"nisa.engine.{helper.name}",
        "how": grouping,
    }
    time_s = examination.time_after_s(
        {}, {i: helper_placements[program.which[i]] for i in moved_instructions}
    )
    return Repair(movable, time_s, figures)
