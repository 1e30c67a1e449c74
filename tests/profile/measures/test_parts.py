"""What parts of a program take: they add up to the program."""

import numpy as np
import pytest

from trnsim.isa import Engine
from trnsim.memory import Memory
from trnsim.profile.measures.parts import WAITING, PartCost, part_costs
from trnsim.timing.occupancy import critical_steps

REASONS = ("given", "made")


def split(timeline, count):
    """Every `count`-th instruction is of one part; what is written is made."""
    number = len(timeline)
    part_of = np.arange(number) % count
    reason_of = np.repeat([[0], [1]], number, axis=1)
    return part_costs(timeline, part_of, count, REASONS, reason_of)


@pytest.mark.parametrize("count", [1, 3])
def test_parts_add_up_to_the_program(timeline, count):
    found = split(timeline, count)
    assert sum(one.instructions for one in found) == len(timeline)
    assert sum(one.time_s for one in found) == pytest.approx(timeline.device_time_s)
    for engine, busy_s in timeline.busy_s().items():
        assert sum(one.busy_s.get(engine.name, 0.0) for one in found) == pytest.approx(busy_s)
    uses = [use for use in timeline.program.uses.values() if use.memory is Memory.HBM]
    read, made = (sum(one.hbm_bytes.get(reason, 0) for one in found) for reason in REASONS)
    assert read == sum(use.read_bytes for use in uses)
    assert made == sum(use.written_bytes for use in uses)


def test_a_part_takes_its_steps_of_the_critical_path(timeline):
    steps = critical_steps(timeline)
    first = int(steps.index[0])
    part_of = np.zeros(len(timeline), np.int64)
    part_of[first] = 1
    reason_of = np.zeros((2, len(timeline)), np.int64)
    part = part_costs(timeline, part_of, 2, REASONS, reason_of)[1]
    engine = timeline.span(first).engine
    assert part.critical_s.get(engine.name, 0.0) == pytest.approx(steps.busy_s[0])
    assert part.critical_s.get(WAITING, 0.0) == pytest.approx(steps.waiting_s[0])


def test_what_bounds_a_part_took_most_of_its_time():
    tensor = Engine.tensor.name
    assert PartCost(1, {}, {tensor: 2e-6, WAITING: 1e-6}).bound_by == tensor
    assert PartCost(1, {tensor: 1.0}, {WAITING: 1e-6}).bound_by == WAITING
    assert PartCost().bound_by == ""


def test_a_part_of_several_layers_is_several_times_one():
    cost = PartCost(2, {"dma": 1.0}, {"dma": 0.5}, {"weights": 8})
    assert cost.repeated(3, 4, 5) == PartCost(10, {"dma": 3.0}, {"dma": 2.0}, {"weights": 24})
    assert cost.plus(PartCost(1, {}, {WAITING: 1.0}, {"inputs": 2})) == PartCost(
        3, {"dma": 1.0}, {"dma": 0.5, WAITING: 1.0}, {"weights": 8, "inputs": 2}
    )


def test_an_empty_program_has_empty_parts(kernel):
    nothing = np.zeros(0, np.int64)
    assert part_costs(kernel.timeline(), nothing, 1, REASONS, np.zeros((2, 0), np.int64)) == [
        PartCost()
    ]
