"""What an instruction needs besides its engine: a queue, a table of functions, a held tile."""

from dataclasses import replace

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from plain_scheduler import plain_schedules
from random_programs import COMPILER, DMA, ISSUED, Launch, Work, launched, program_of

import trnsim
from trnsim import facts
from trnsim.isa import Engine
from trnsim.timing import timelines

V, S, G = Engine.vector, Engine.scalar, Engine.gpsimd


@pytest.mark.parametrize(
    ("engines", "tables", "loads"),
    [
        ([S] * 7, ["", "exp", "exp", "", "exp", "gelu", "exp"], [0, 1, 0, 0, 0, 1, 1]),
        ([S, G, S, G], ["exp"] * 4, [1, 1, 0, 0]),
    ],
)
def test_an_engine_loads_another_table_of_functions_first(core_v3, engines, tables, loads):
    works = (Work(e, 1, 0, table=table) for e, table in zip(engines, tables, strict=True))
    placed = launched(core_v3, *((work, ()) for work in works))
    busy_s = np.subtract(placed.busy_until_s, placed.start_s)
    once_s = [Work(engine, 1, 0).price(core_v3, {}).interval_s for engine in engines]
    load_s = core_v3.activation_table_load_s / 10
    assert busy_s == pytest.approx(once_s + load_s * np.array(loads))


@nki.jit
def products(a, turns, address=None):
    """Products with stationary tiles of `a`, by number; then the result."""
    moving = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.sbuf, address=address)
    stationary = nl.ndarray((128, 256), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=moving, src=a)
    nisa.dma_copy(dst=stationary, src=a[:, 0:256])
    bank = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    for turn in turns:
        nisa.nc_matmul(bank, stationary[:, 128 * turn : 128 * turn + 128], moving)
    tile = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.sbuf)
    out = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.tensor_copy(tile, bank)
    nisa.dma_copy(dst=out, src=tile)
    return out


def loads_before(turns, address=None):
    """For each product of a kernel, whether its stationary tile is loaded."""
    a = np.zeros((128, 512), ml_dtypes.bfloat16)
    timeline = trnsim.run(products, a, turns, address, target="trn1", numerics=False).timeline
    cycles = [
        (span.busy_until_s - span.start_s) * 2.8e9
        for span in timeline.spans()
        if span.engine is Engine.tensor
    ]
    assert set(np.round(cycles)) <= {512, 512 + 64}
    return [round(number) > 512 for number in cycles]


def test_the_array_loads_a_stationary_tile_that_it_does_not_hold():
    assert loads_before((0, 0, 1, 1, 0)) == [True, False, True, False, True]


def test_a_tile_whose_bytes_are_not_recorded_is_loaded_each_time():
    assert loads_before((0, 0), address=(0, 4096)) == [True, True]


def transfer(core, queues, interval, issue):
    """A transfer, and the core with that many queues."""
    core = replace(core, dma_queues=facts.count(queues, "of the test"))
    work = Work(DMA, interval, 0, issue=issue)
    return core, work, work.price(core, {})


@pytest.mark.parametrize(
    ("queues", "turns", "causes"),
    [(1, [0, 1, 2, 3], [-1, 0, 1, 2]), (2, [0, 0, 1, 1], [-1, 0, 0, 2])],
)
def test_a_queue_issues_one_transfer_at_a_time(core_v3, queues, turns, causes):
    core, work, price = transfer(core_v3, queues, 1, 10)
    assert price.issue_s > 2 * price.interval_s
    placed = launched(core, *[(work, ())] * 4)
    starts_s = [turn * price.issue_s for turn in turns]
    if queues > 1:  # the second one waits for the engines
        starts_s[1::2] = [start_s + price.interval_s for start_s in starts_s[1::2]]
    assert list(placed.start_s) == pytest.approx(starts_s)
    assert list(placed.waited_for) == causes


def test_long_transfers_are_bound_by_the_engines_however_many_queues(core_v3):
    core, work, price = transfer(core_v3, 16, 30, 1)
    assert price.interval_s > 3 * price.issue_s
    placed = launched(core, *[(work, ())] * 3)
    assert list(placed.start_s) == pytest.approx([turn * price.interval_s for turn in range(3)])


def test_a_transfer_that_is_ready_is_issued_before_one_that_is_not(core_v3):
    core, work, _ = transfer(core_v3, 1, 1, 2)
    placed = launched(core, (Work(V, 9, 0), ()), (work, [0]), (work, ()), policy=ISSUED)
    after_s = placed.end_s[0] + core.engine_semaphore_s
    assert list(placed.start_s[1:]) == [after_s, 0]


def test_the_queue_that_has_issued_least_takes_the_next_transfer(core_v3):
    """One queue is at work for long, the other one issues all that are short."""
    core, short, price = transfer(core_v3, 2, 1, 3)
    placed = launched(core, (replace(short, issue=90), ()), *[(short, ())] * 4)
    first_s = price.interval_s
    assert list(placed.start_s) == pytest.approx(
        [0, first_s, *(turn * price.issue_s for turn in (1, 2, 3))]
    )
    assert list(placed.waited_for) == [-1, 0, 1, 2, 3]


def test_a_queue_that_was_free_before_issues_nothing_in_the_past(core_v2):
    """Three transfers become ready at once: the third one waits for one of two queues."""
    move = Work(DMA, 1, 0, issue=90)
    stream = [
        (Work(V, 50, 0), [], []),
        *[(move, [0], [])] * 3,
        (Work(S, 100, 0), [], []),
        (Work(V, 1, 0), [3], []),
        (Work(V, 1, 0), [4], []),
    ]
    launch = Launch([stream], "v2", COMPILER)
    (placed,) = launch.schedules()
    (plain,) = plain_schedules(launch.programs, core_v2, COMPILER)
    assert placed.start_s[6] == placed.end_s[4] + core_v2.engine_semaphore_s < placed.start_s[5]
    assert list(placed.start_s) == plain.start_s


def test_issuing_is_what_the_busiest_queue_does(core_v3):
    core, short, _ = transfer(core_v3, 2, 1, 3)
    stream = [(work, (), ()) for work in (replace(short, issue=90), *[short] * 4)]
    (timeline,) = timelines([program_of(core, stream)])
    assert timeline.queue_issue_s() == 90 * core.dma_issue_s / 10
    assert list(timeline.order.queues[0].values()) == [0, 1, 1, 1, 1]
    none = [(Work(V, 1, 0), (), ())]
    assert timelines([program_of(core, none)])[0].queue_issue_s() == 0


def test_at_a_meeting_a_transfer_is_issued_when_all_have_come(core_v3):
    exchange = Work(DMA, 1, 0, group=(0, 1), issue=20)
    late = [(Work(S, 90, 0), [], []), (exchange, [0], []), (Work(DMA, 1, 0), [1], [])]
    early = [(exchange, [], []), (Work(DMA, 1, 0), [0], [])]
    for policy in (COMPILER, ISSUED):
        for placed in Launch([late, early], "v3", policy).schedules():
            met_s, next_s = placed.start_s[-2:]
            assert met_s > 0
            assert next_s == met_s + exchange.price(core_v3, {}).issue_s


def test_at_a_meeting_all_wait_for_the_engines_of_each():
    """Those of one core are at work when the cores come: what needs no exchange goes first."""
    long = (Work(DMA, 900, 0), [], [])
    exchange = (Work(DMA, 1, 0, group=(0, 1)), [], [])
    others = [(Work(S, 50, 0), [], []), (Work(V, 1, 0), [0], []), (Work(V, 1, 0), [1], [])]
    launch = Launch([[exchange, *others], [long, exchange]], "v3", COMPILER)
    first, second = launch.schedules()
    assert first.start_s[0] == second.start_s[1] == second.busy_until_s[0]
    assert first.start_s[3] == first.end_s[1] + launch.core.engine_semaphore_s < first.start_s[0]
    plain, _ = plain_schedules(launch.programs, launch.core, COMPILER)
    assert list(first.start_s) == plain.start_s
