"""The compiler's choices: transfers that overtake, or one queue in the order of issue."""

import pytest

from trnsim.isa import Cost, Engine
from trnsim.timing import Policy, Scheduler

US = 1e-6
STREAM = [
    (Engine.vector, Cost(5 * US, 0), []),
    (Engine.dma, Cost(US, 0), [0]),
    (Engine.dma, Cost(US, 0), []),
]


@pytest.mark.parametrize(("overtake", "starts"), [(True, [5.06, 0]), (False, [5.06, 6.06])])
def test_a_ready_transfer_overtakes_unless_there_is_one_queue(core_v3, overtake, starts):
    scheduler = Scheduler(core_v3, Policy(transfers_overtake=overtake))
    for index, (engine, cost, predecessors) in enumerate(STREAM):
        scheduler.place(index, engine, cost, predecessors)
    assert [s / US for s in scheduler.start_s[1:]] == pytest.approx(starts)
    assert scheduler.waited_for[2] == (-1 if overtake else 1)


def test_transfers_overtake_by_default():
    assert Policy().transfers_overtake
