"""Programs that are changed are ordered anew, as if they had been recorded so."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_programs import COMPILER, COMPUTE, DMA, ISSUED, Work, program_of, streams

from trnsim.arch import NEURONCORE_V2, NEURONCORE_V3
from trnsim.isa import Engine
from trnsim.timing import EnginePlacement, choose_order, replay
from trnsim.timing.changed import changed_schedule, halves_at_once

V, S = Engine.vector, Engine.scalar
CORES = st.sampled_from([NEURONCORE_V2, NEURONCORE_V3])
POLICIES = st.sampled_from([COMPILER, ISSUED])


def recorded(program, core, policy):
    (schedule,) = replay([program], core, choose_order([program], core, policy))
    return schedule


@pytest.mark.slow
@settings(max_examples=60)
@given(streams(), CORES, POLICIES)
def test_a_program_that_is_not_changed_takes_as_long(stream, core, policy):
    program = program_of(core, stream)
    own = [EnginePlacement(checked.engine, checked.cost) for checked in program.checked]
    found, before = (
        changed_schedule(program, policy, own.__getitem__),
        recorded(program, core, policy),
    )
    assert (found.start_s, found.end_s) == (before.start_s, before.end_s)


@pytest.mark.slow
@settings(max_examples=60)
@given(streams(), CORES, POLICIES, st.data())
def test_a_changed_program_runs_like_one_recorded_so(stream, core, policy, data):
    engines = data.draw(
        st.lists(st.sampled_from(COMPUTE), min_size=len(stream), max_size=len(stream))
    )
    moved = [
        replace(work, engine=work.engine if work.engine is DMA else engine, interval=at % 5)
        for at, ((work, _, _), engine) in enumerate(zip(stream, engines, strict=True))
    ]
    expected = []
    for work, (_, waits_for, follows) in zip(moved, stream, strict=True):
        apart = {i for i in follows if moved[i].engine is not work.engine}
        expected.append((work, waits_for | apart, follows - apart))
    after = recorded(program_of(core, expected), core, policy)
    placed = [EnginePlacement(work.engine, work.price(core, {})) for work in moved]
    found = changed_schedule(program_of(core, stream), policy, placed.__getitem__)
    assert (found.start_s, found.end_s) == (after.start_s, after.end_s)


def tiles(count, *, linked):
    """Tiles, each a chain over three engines; `linked` ones reuse a buffer."""
    stream = []
    for at in range(0, 3 * count, 3):
        for place, engine in enumerate((V, S, V)):
            waits_for = {at + place - 1} if place or (linked and at) else set()
            stream.append((Work(engine, 5, 40), waits_for, set()))
    return stream


@pytest.mark.parametrize("count", [10, 16, 20])
def test_two_halves_at_once_take_half_as_long_as_a_chain(count):
    program = program_of(NEURONCORE_V3, tiles(count, linked=True))
    one = recorded(
        program_of(NEURONCORE_V3, tiles((count + 1) // 2, linked=True)), NEURONCORE_V3, COMPILER
    )
    found = halves_at_once(program, COMPILER)
    assert found.device_time_s == pytest.approx(one.device_time_s, rel=0.05)


def test_halves_that_were_independent_gain_nothing():
    program = program_of(NEURONCORE_V3, tiles(16, linked=False))
    before = recorded(program, NEURONCORE_V3, COMPILER)
    assert halves_at_once(program, COMPILER).device_time_s >= 0.9 * before.device_time_s


def test_what_the_first_half_leaves_for_much_later_is_waited_for():
    load = [(Work(DMA, 400, 1), set(), set())]
    work = [(Work(V, 1, 1), {0}, set()) for _ in range(15)]
    program = program_of(NEURONCORE_V3, load + work)
    before = recorded(program, NEURONCORE_V3, COMPILER)
    assert halves_at_once(program, COMPILER).device_time_s == before.device_time_s


@pytest.mark.slow
@settings(max_examples=60)
@given(streams(), CORES, POLICIES)
def test_halves_at_once_start_every_instruction(stream, core, policy):
    program = program_of(core, stream)
    found = halves_at_once(program, policy)
    assert len(found.end_s) == len(stream)
    longest = max(checked.cost.interval_s for checked in program.checked)
    assert found.device_time_s >= longest


def test_an_empty_program_takes_no_time():
    program = program_of(NEURONCORE_V3, [])
    assert halves_at_once(program, COMPILER).device_time_s == 0
