"""Examinations: a timeline with quantities for the rules of advice, and the rules' repairs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from trnsim.errors import SourceLine
from trnsim.isa import Engine, Instruction
from trnsim.timing import EnginePlacement, Timeline, recorded_placements
from trnsim.timing.occupancy import Columns, Integers, columns


@dataclass(frozen=True, slots=True)
class Repair:
    """The effect of repairing a flaw in a program.

    Attributes:
        affected_indices: indices of the issued instructions that have the flaw.
        device_time_s: estimated device time without it.
        figures: values for the placeholders of the rule's texts.
    """

    affected_indices: Integers
    device_time_s: float
    figures: dict[str, Any]


class Examination:
    """A timeline under examination, with quantities that several rules use.

    Attributes:
        recorded_placements: engine and cost of each distinct instruction, as recorded.
        base_time_s: device time to compare `time_after_s` with: only of this core, in a new order.
    """

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.program = timeline.program
        self.core = timeline.program.core
        self.recorded_placements = recorded_placements(self.program)
        self.base_time_s = timeline.undisturbed_new_order_s

    @cached_property
    def spans(self) -> Columns:
        """The timeline in columns."""
        return columns(self.timeline)

    @cached_property
    def busy_s(self) -> dict[Engine, float]:
        """Time for which each engine was busy."""
        return self.timeline.busy_s()

    @cached_property
    def counts(self) -> Integers:
        """Number of issues of each distinct instruction."""
        return np.bincount(self.spans.which, minlength=len(self.program.checked))

    @cached_property
    def same_shape_groups(self) -> list[list[int]]:
        """Groups of distinct instructions with equal opcode, and shape, dtype and memory of tiles.

        Other operands and strides may differ.
        """
        groups: defaultdict[object, list[int]] = defaultdict(list)
        for which, checked in enumerate(self.program.checked):
            groups[_shapes(checked.instruction)].append(which)
        return list(groups.values())

    def issued_indices(self, whiches: list[int]) -> Integers:
        """Indices of the issued instructions whose distinct instruction is in `whiches`."""
        return np.flatnonzero(np.isin(self.spans.which, whiches))

    def time_after_s(
        self,
        by_distinct: dict[int, EnginePlacement],
        by_issued: dict[int, EnginePlacement] | None = None,
        *,
        keeps_memory_plan: bool = True,
    ) -> float:
        """The device time with other placements, ordered anew.

        Args:
            by_distinct: placements by index of the distinct instruction.
            by_issued: placements by index of the issued instruction; they override `by_distinct`.
            keeps_memory_plan: whether waits for reused on-chip memory, and spills, stay; False if
                tensors change their sizes.
        """
        placements = [
            by_distinct.get(which, placement)
            for which, placement in enumerate(self.recorded_placements)
        ]
        which_of, overrides = self.program.which, by_issued or {}
        return self.timeline.new_order_time_s(
            lambda index: overrides.get(index) or placements[which_of[index]],
            keeps_memory_reuse=keeps_memory_plan,
        )

    def costliest_line(self, indices: Integers) -> SourceLine | None:
        """The line whose instructions among `indices` take longest, latency included."""
        line_of = self.spans.line_of[indices]
        durations_s = self.spans.end_s[indices] - self.spans.start_s[indices]
        has_line = line_of >= 0
        if not has_line.any():
            return None
        return self.program.lines[
            int(np.argmax(np.bincount(line_of[has_line], durations_s[has_line])))
        ]


def _shapes(instruction: Instruction) -> object:
    """The opcode with shape, dtype and memory of each tile."""
    tiles = ((tile.shape, tile.dtype, tile.memory) for _, tile in instruction.tiles())
    return instruction.opcode, *tiles
