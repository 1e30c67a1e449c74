"""Schedules of changed programs: other placements of a core's instructions, in a new order.

A user who follows advice compiles the kernel again, so its instructions may start in another order.
For changed constants of the hardware the order is kept instead (design note 0018).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from trnsim.program import Program
from trnsim.program.dependencies import Before
from trnsim.timing.compiler_policy import Policy
from trnsim.timing.order import choose_alone
from trnsim.timing.schedule import (
    EnginePlacement,
    Schedule,
    recorded_placements,
    schedule_alone,
)

_LARGEST_TILE_SHARE: Final = 1 / 8
"""Largest share of a program's instructions that use one tile, if two tiles can overlap."""


def changed_schedule(
    program: Program, policy: Policy, placement: Callable[[int], EnginePlacement]
) -> Schedule:
    """The schedule with instruction i placed by `placement(i)`, in an order that is chosen again.

    The core waits for its neighbours at no meeting.
    """
    return _schedule_anew(*_with_placements(program, placement), policy)


def _with_placements(
    program: Program, placement: Callable[[int], EnginePlacement]
) -> tuple[Program, list[EnginePlacement]]:
    """The program with a distinct instruction for each placement, and these placements.

    An instruction waits for those that it followed on its engine, if either is on another engine.
    """
    variant = Program(program.core, touches=program.touches, ordering=program.ordering)
    placements: list[EnginePlacement] = []
    numbers: dict[tuple[int, int], int] = {}
    for index, which in enumerate(program.which):
        own_placement = placement(index)
        number = numbers.setdefault((which, id(own_placement)), len(placements))
        if number == len(placements):
            placements.append(own_placement)  # a reference, so that its id is not reused
            variant.checked.append(program.checked[which])
        waits_for, follows = list(program.waits_for(index)), list[int]()
        engine = program.instruction(index).engine
        for earlier in program.follows(index):
            is_apart = (
                placements[variant.which[earlier]].engine is not own_placement.engine
                and program.instruction(earlier).engine is engine
            )
            (waits_for if is_apart else follows).append(earlier)
        variant.append(number, Before(waits_for, follows), None)
    return variant, placements


def halves_at_once(program: Program, policy: Policy) -> Schedule:
    """The schedule if the second half of the program ran beside the first, nearly independently.

    Dependences between the halves are dropped, unless more than `_LARGEST_TILE_SHARE` of the
    program lies between the two instructions. Such distant dependences are of weights, or of
    kernels that issue all loads first.
    """
    count = len(program)
    half, longest_distance = (count + 1) // 2, count * _LARGEST_TILE_SHARE

    def kept_dependences(index: int, before: Sequence[int]) -> list[int]:
        return [i for i in before if index < half or i >= half or index - i > longest_distance]

    turns = list(range(half))
    turn = -1
    for index in range(half, count):
        before = kept_dependences(index, [*program.waits_for(index), *program.follows(index)])
        turn = max(turn, index - half, *(i for i in before if i < half))
        turns.append(turn)
    by_turn = sorted(range(count), key=lambda index: (turns[index], index))
    place = {index: number for number, index in enumerate(by_turn)}
    interleaved = Program(program.core, checked=program.checked)
    for index in by_turn:
        waits_for, follows = (
            [place[i] for i in kept_dependences(index, before)]
            for before in (program.waits_for(index), program.follows(index))
        )
        interleaved.append(program.which[index], Before(waits_for, follows), None)
        if len(program.touches) == count:
            interleaved.touches.append(program.touches.tiles_of(index))
    return _schedule_anew(interleaved, recorded_placements(program), policy)


def _schedule_anew(program: Program, placements: list[EnginePlacement], policy: Policy) -> Schedule:
    core, which_of = program.core, program.which
    order = choose_alone(program, placements, core, policy)
    return schedule_alone(program, core, order, 0, lambda index: placements[which_of[index]])
