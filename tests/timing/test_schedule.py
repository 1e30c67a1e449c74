"""Schedules in a kept order: engines, semaphores, nothing before its cause, no gain that costs."""

import importlib.util
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_scheduler import plain_schedules
from random_programs import (
    COMPILER,
    COMPUTE,
    DMA,
    ISSUED,
    Launch,
    Work,
    launched,
    launches,
    program_of,
    stream_of,
    streams,
)

import trnsim
from trnsim.arch.draws import sample_core, stack_cores
from trnsim.facts import assumed
from trnsim.isa import Activation, Engine, Memset, TensorCopy
from trnsim.memory import Memory
from trnsim.timing import EnginePlacement, choose_order, replay
from trnsim.timing.schedule import device_times_s, schedule_alone

V, S, G, T = Engine.vector, Engine.scalar, Engine.gpsimd, Engine.tensor

# What makes a chip faster, and by how much.
FASTER = {
    "tensor_clock_hz": 1.25,
    "vector_clock_hz": 1.25,
    "scalar_clock_hz": 1.25,
    "gpsimd_clock_hz": 1.25,
    "dma_bytes_per_s": 1.1,
    "dma_start_s": 0.8,
    "dma_end_s": 0.8,
    "dma_issue_s": 0.8,
    "activation_table_load_s": 0.8,
    "access_latency_cycles": 0.8,
    "core_barrier_s": 0.8,
    "engine_semaphore_s": 0.0,
}


def changed(core, name, factor):
    return replace(core, **{name: assumed(getattr(core, name) * factor, "faster in a test")})


def scheduled(core, *stream):
    """The schedule of one core's (engine, interval, latency, what it waits for)."""
    return launched(core, *((Work(*work), waits_for) for *work, waits_for in stream))


def cost(core, *work):
    return Work(*work).price(core, {})


# One core


def test_an_instruction_occupies_its_engine_and_is_read_a_latency_later(core_v3):
    placed = scheduled(core_v3, (V, 2, 3, ()), (V, 5, 1, ()))
    first, second = cost(core_v3, V, 2, 3), cost(core_v3, V, 5, 1)
    assert list(placed.start_s) == [0, first.interval_s]
    assert list(placed.busy_until_s) == [first.interval_s, first.interval_s + second.interval_s]
    assert list(placed.end_s) == [
        first.interval_s + first.latency_s,
        first.interval_s + second.interval_s + second.latency_s,
    ]
    assert list(placed.waited_for) == [-1, 0]
    assert placed.device_time_s == max(placed.end_s)


def test_another_engine_costs_a_semaphore(core_v3):
    placed = scheduled(core_v3, (V, 1, 1, ()), (S, 1, 1, [0]), (V, 1, 1, [0]))
    end_s = placed.end_s[0]
    assert core_v3.engine_semaphore_s > 0
    assert list(placed.start_s) == [0, end_s + core_v3.engine_semaphore_s, end_s]
    assert list(placed.waited_for) == [-1, 0, 0]


@pytest.mark.parametrize(("generation", "waits"), [(2, True), (3, False)])
@pytest.mark.parametrize("other", [G, S])
def test_engines_that_share_a_port_take_turns_before_v3(
    bench, core_v2, core_v3, generation, waits, other
):
    """Vector shares the port to SBUF with GpSimd, and the one to PSUM with the Scalar Engine."""
    work = bench({2: core_v2, 3: core_v3}[generation], has_values=False)
    psum = work.empty((128, 512), memory=Memory.PSUM)
    for engine in (V, other):
        if other is G:
            work.issue(Memset(work.empty((128, 512)), 0.0, engine))
        elif engine is V:
            work.issue(TensorCopy(work.empty((128, 512)), psum, V))
        else:
            work.issue(Activation(work.empty((128, 512)), "copy", psum))
    first, second = work.timeline.spans()
    assert (second.start_s >= first.busy_until_s) is waits
    assert (second.waited_for == 0) is waits


def test_the_last_of_several_causes_is_the_one_waited_for(core_v3):
    placed = scheduled(core_v3, (V, 1, 0, ()), (S, 9, 0, ()), (G, 2, 0, ()), (T, 1, 0, [0, 1, 2]))
    assert placed.waited_for[3] == 1


def test_a_transfer_that_is_ready_does_not_wait_for_one_that_is_not(core_v3):
    placed = scheduled(core_v3, (V, 9, 0, ()), (DMA, 1, 0, [0]), (DMA, 1, 0, ()), (DMA, 1, 0, ()))
    assert placed.start_s[1] == placed.end_s[0] + core_v3.engine_semaphore_s
    assert list(placed.start_s[2:]) == [0, placed.busy_until_s[2]]
    assert list(placed.waited_for) == [-1, 0, -1, 2]


@pytest.mark.slow
@settings(max_examples=100)
@given(launches())
def test_nothing_starts_before_its_causes_or_on_a_busy_engine(launch):
    semaphore_s = launch.core.engine_semaphore_s
    for program, placed in zip(launch.programs, launch.schedules(), strict=True):
        busy = {}
        for index in range(len(program)):
            here, start_s = program.instruction(index), placed.start_s[index]
            for earlier in program.waits_for(index):
                is_same = program.instruction(earlier).engine is here.engine
                assert start_s >= placed.end_s[earlier] + (0 if is_same else semaphore_s)
            for earlier in program.follows(index):
                assert start_s >= placed.busy_until_s[earlier]
            took_s = placed.busy_until_s[index] - start_s
            slowest = 2 if here.engine is T else 1  # the Tensor Engine after a pause
            assert took_s >= here.cost.interval_s * (1 - 1e-6)
            assert took_s <= (slowest * here.cost.interval_s + here.cost.held_load_s) * (1 + 1e-6)
            assert placed.end_s[index] == placed.busy_until_s[index] + here.cost.latency_s
            busy.setdefault(here.engine, []).append((start_s, placed.busy_until_s[index]))
        for intervals in busy.values():
            assert all(end <= start for (_, end), (start, _) in pairwise(sorted(intervals)))


@pytest.mark.slow
@settings(max_examples=100)
@given(launches())
def test_members_of_a_meeting_start_together_and_meetings_of_a_core_in_turn(launch):
    schedules = launch.schedules()
    met = [
        [
            (program.instruction(i).instruction.group, placed.start_s[i])
            for i in range(len(program))
            if len(program.instruction(i).instruction.group) > 1
        ]
        for program, placed in zip(launch.programs, schedules, strict=True)
    ]
    for rank, own in enumerate(met):
        assert all(one[1] <= later[1] for one, later in pairwise(own))
        for other, theirs in enumerate(met):
            shared = [[m for m in found if {rank, other} <= set(m[0])] for found in (own, theirs)]
            assert shared[0] == shared[1]


def issued(launch, placed):
    """When its queue has issued each transfer of one core."""
    (program,), order, found, queues_s = launch.programs, launch.order, {}, {}
    for index in order.indices:
        here = program.instruction(index)
        if here.engine is not DMA:
            continue
        ready_s = [queues_s.get(order.queues[0][index], 0.0)]
        for earlier in program.waits_for(index):
            is_same = program.instruction(earlier).engine is DMA
            semaphore_s = 0 if is_same else launch.core.engine_semaphore_s
            ready_s.append(placed.end_s[earlier] + semaphore_s)
        found[index] = queues_s[order.queues[0][index]] = max(ready_s) + here.cost.issue_s
    return found


@given(streams(), st.sampled_from([COMPILER, ISSUED]), st.sampled_from(["v2", "v3"]))
def test_every_start_is_explained_by_what_it_waited_for(stream, policy, name):
    launch = Launch([stream], name, policy)
    (program,), (placed,) = launch.programs, launch.schedules()
    issued_s = issued(launch, placed)
    for index, (work, waits_for, _) in enumerate(stream):
        cause = placed.waited_for[index]
        if cause == -1:
            assert placed.start_s[index] == 0
            continue
        ports = program.instruction(index).cost.ports
        is_same = stream[cause][0].engine is work.engine
        shares_port = set(ports) & set(program.instruction(cause).cost.ports)
        moments = [placed.busy_until_s[cause]] if is_same or shares_port else []
        if cause in waits_for:
            semaphore_s = 0 if is_same else launch.core.engine_semaphore_s
            moments.append(placed.end_s[cause] + semaphore_s)
        if is_same and work.engine is DMA:
            moments.append(issued_s[cause])
        assert placed.start_s[index] in moments


without_ports = streams(engines=COMPUTE).map(
    lambda stream: [(replace(work, ports=()), *before) for work, *before in stream]
)


@given(without_ports, without_ports)
def test_more_work_behind_engines_in_order_changes_nothing_before_it(stream, more):
    """Of engines in order: a transfer, or what the compiler lets overtake, may be in the way."""
    shifted = [
        (work, {len(stream) + i for i in waits_for}, {len(stream) + i for i in follows})
        for work, waits_for, follows in more
    ]
    (before,) = Launch([stream], "v3", ISSUED).schedules()
    (after,) = Launch([[*stream, *shifted]], "v3", ISSUED).schedules()
    assert after.end_s[: len(stream)] == before.end_s
    assert after.device_time_s >= before.device_time_s


def on(stream, engines, shift):
    """The stream with its engines exchanged, and as if `shift` instructions came before it."""
    moved = [replace(work, engine=engines.get(work.engine, engines[None])) for work, *_ in stream]
    return [
        (
            work,
            {shift + i for i in waits_for},
            {shift + i for i in follows if moved[i].engine is work.engine is not DMA},
        )
        for work, (_, waits_for, follows) in zip(moved, stream, strict=True)
    ]


@given(streams(), streams(), st.sampled_from([COMPILER, ISSUED]))
def test_engines_without_dependences_do_not_see_each_others_place_in_the_stream(one, two, policy):
    left, right = {V: V, G: G, None: T}, {S: S, None: DMA}
    (first,) = Launch([on(one, left, 0) + on(two, right, len(one))], "v3", policy).schedules()
    (second,) = Launch([on(two, right, 0) + on(one, left, len(two))], "v3", policy).schedules()
    assert first.end_s[: len(one)] == second.end_s[len(two) :]
    assert first.end_s[len(one) :] == second.end_s[: len(two)]


@given(launches())
def test_the_same_launch_gives_the_same_schedule(launch):
    again = Launch(launch.streams, launch.name, launch.policy)
    for one, other in zip(launch.schedules(), again.schedules(), strict=True):
        assert (one.start_s, one.end_s) == (other.start_s, other.end_s)
        assert one.waited_for == other.waited_for


# Other constants, in the same order


@pytest.mark.slow
@settings(max_examples=100)
@given(launches(), st.sampled_from(sorted(FASTER)))
def test_no_result_comes_later_on_a_faster_core(launch, name):
    core = changed(launch.core, name, FASTER[name])
    for slow, fast in zip(launch.schedules(), launch.schedules(core), strict=True):
        assert all(a <= b for a, b in zip(fast.start_s, slow.start_s, strict=True))
        assert all(a <= b for a, b in zip(fast.end_s, slow.end_s, strict=True))


@pytest.mark.slow
@settings(max_examples=60)
@given(launches(), st.lists(st.floats(0.1, 10), min_size=len(FASTER), max_size=len(FASTER)))
def test_no_result_comes_later_where_each_constant_is_better(launch, factors):
    core = better = launch.core
    for (name, direction), factor in zip(FASTER.items(), factors, strict=True):
        core = changed(core, name, factor)
        gain = max(factor, 1.0) if direction > 1 else min(factor, 1.0)
        better = changed(better, name, gain)
    for slow, fast in zip(launch.schedules(core), launch.schedules(better), strict=True):
        assert all(a <= b for a, b in zip(fast.end_s, slow.end_s, strict=True))


@pytest.mark.slow
@settings(max_examples=100)
@given(launches(), st.data())
def test_no_result_comes_later_without_one_of_the_dependences(launch, data):
    known = [
        (rank, index, earlier)
        for rank, program in enumerate(launch.programs)
        for index in range(len(program))
        for earlier in program.waits_for(index)
    ]
    if not known:
        return
    at, index, earlier = data.draw(st.sampled_from(known))
    fewer = [stream_of(program) for program in launch.programs]
    fewer[at][index][1].remove(earlier)
    programs = [program_of(launch.core, stream) for stream in fewer]
    free = replay(programs, launch.core, launch.order)
    for slow, fast in zip(launch.schedules(), free, strict=True):
        assert all(a <= b for a, b in zip(fast.end_s, slow.end_s, strict=True))


def cores_of(core):
    """The nominal constants, each change, and some that are drawn."""
    faster = [changed(core, name, factor) for name, factor in FASTER.items()]
    return [core, *faster, *(sample_core(core, draw) for draw in range(3))]


@pytest.mark.slow
@settings(max_examples=60)
@given(launches())
def test_many_sets_of_constants_at_once_give_the_times_of_each_alone(launch):
    cores = cores_of(launch.core)
    each = [launch.schedules(core) for core in cores]
    for rank in range(len(launch.programs)):
        together_s = device_times_s(launch.programs, stack_cores(cores), launch.order, rank)
        assert together_s.tolist() == [schedules[rank].device_time_s for schedules in each]
        assert (together_s[1 : 1 + len(FASTER)] <= together_s[0]).all()


@pytest.mark.parametrize("engines", [(DMA, V), (V, DMA)])
def test_many_sets_at_once_keep_a_cores_meetings_in_turn(engines):
    """The second meeting takes longest, and nothing but the first one keeps it from starting."""
    first, second = (
        Work(engine, amount, 0, group=(0, 1))
        for engine, amount in zip(engines, (1, 90), strict=True)
    )
    late = [(Work(S, 9, 0), [], []), (first, [0], []), (second, [], [])]
    launch = Launch([late, [(first, [], []), (second, [], [])]], "v3", COMPILER)
    for rank, placed in enumerate(launch.schedules()):
        assert placed.start_s[-1] == placed.start_s[-2] > 0
        (found_s,) = device_times_s(launch.programs, stack_cores([launch.core]), launch.order, rank)
        assert found_s == placed.device_time_s


@pytest.mark.slow
@settings(max_examples=60)
@given(launches())
def test_a_core_whose_neighbours_keep_step_is_never_later(launch):
    for rank, (program, placed) in enumerate(zip(launch.programs, launch.schedules(), strict=True)):
        costs = [EnginePlacement(checked.engine, checked.cost) for checked in program.checked]
        found = schedule_alone(program, launch.core, launch.order, rank, costs.__getitem__)
        assert all(a <= b for a, b in zip(found.end_s, placed.end_s, strict=True))
        if len(launch.programs) == 1:
            assert (found.end_s, found.waited_for) == (placed.end_s, placed.waited_for)


def test_what_is_moved_to_another_engine_waits_for_what_it_followed(core_v3):
    launch = Launch([[(Work(V, 5, 3), [], []), (Work(V, 1, 0), [], [0])]], "v3", COMPILER)
    (program,), (kept,) = launch.programs, launch.schedules()
    assert kept.start_s[1] == kept.busy_until_s[0]
    placed = [
        EnginePlacement(V, cost(core_v3, V, 5, 3)),
        EnginePlacement(S, cost(core_v3, S, 1, 0)),
    ]
    found = schedule_alone(program, core_v3, launch.order, 0, placed.__getitem__)
    assert found.start_s[1] == found.end_s[0] + core_v3.engine_semaphore_s
    assert found.waited_for[1] == 0


@pytest.mark.slow
@settings(max_examples=60)
@given(launches(), st.data())
def test_wherever_instructions_are_placed_each_comes_after_what_it_came_after(launch, data):
    program, core = launch.programs[0], launch.core
    engines = data.draw(st.lists(st.sampled_from(COMPUTE), min_size=len(program), max_size=99))
    own = [program.instruction(index) for index in range(len(program))]
    placed = [
        EnginePlacement(one.engine if one.engine is DMA else engine, one.cost)
        for one, engine in zip(own, engines, strict=False)
    ]
    found = schedule_alone(program, core, launch.order, 0, placed.__getitem__)
    for index in range(len(program)):
        for earlier in program.follows(index):
            is_moved = placed[earlier].engine is not placed[index].engine
            least_s = found.end_s[earlier] + core.engine_semaphore_s if is_moved else 0.0
            assert found.start_s[index] >= max(least_s, found.busy_until_s[earlier])


# Kernels


def chain(work, length=6):
    tile = work.empty((32, 64))
    work.issue(Memset(tile, 1.0))
    for index in range(length):
        engine = (Engine.vector, Engine.gpsimd, Engine.scalar)[index % 3]
        tile = work.issue(TensorCopy(work.empty((32, 64)), tile, engine))
    return work


def test_a_program_can_be_replayed_with_the_constants_of_another_core(bench, core_v3, core_v4):
    program = chain(bench(core_v3)).program
    (slow,) = replay([program], core_v3, choose_order([program], core_v3))
    (fast,) = replay([program], core_v4, choose_order([program], core_v3))
    assert fast.device_time_s < slow.device_time_s
    own = chain(bench(core_v4)).timeline
    assert list(fast.start_s) == [span.start_s for span in own.spans()]


EXAMPLES = Path(__file__).parents[2] / "examples"


@nki.jit
def exchanged(x):
    """Each core sends its tile to the other, in two parts on two mechanisms, and they meet."""
    rank = nl.program_id(0)
    out = nl.ndarray((2, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
    tile, other = (nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf) for _ in range(2))
    nisa.dma_copy(dst=tile, src=x)
    for _ in range(20 * rank):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    for part, engine in enumerate((nisa.dma_engine.dma, nisa.dma_engine.gpsimd_dma)):
        columns = slice(part * 128, part * 128 + 128)
        nisa.sendrecv(tile[:, columns], other[:, columns], 1 - rank, 1 - rank, part, engine)
    nisa.dma_copy(dst=out[rank], src=other)
    nisa.core_barrier(data=out, cores=(0, 1))
    return out


def kernels():
    """Kernels with inputs: of the examples, and one of two cores."""
    found = {}
    for name in ("attention", "matmul_steps"):
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
        found[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found[name])
    square = np.zeros((512, 512), np.float32)
    yield found["attention"].attention, [square[:, :64]] * 3
    yield found["matmul_steps"].step1, [square[:, :256]] * 2
    yield found["matmul_steps"].step4, [square] * 2
    yield exchanged[2], [np.zeros((128, 256), np.float32)]


@pytest.mark.parametrize("order", ["compiler", "issued"])
@pytest.mark.parametrize("number", range(4))
def test_no_result_of_a_kernel_comes_later_on_a_faster_core(number, order):
    kernel, arrays = list(kernels())[number]
    run = trnsim.run(kernel, *arrays, numerics=False, order=order)
    programs = [timeline.program for timeline in run.timelines]
    core, kept = programs[0].core, run.timeline.order
    nominal = replay(programs, core, kept)
    for rank, timeline in enumerate(run.timelines):
        times_s = device_times_s(programs, stack_cores(cores_of(core)), kept, rank)
        assert times_s[0] == timeline.device_time_s == nominal[rank].device_time_s
        assert (times_s[1 : 1 + len(FASTER)] <= times_s[0]).all()
    for name, factor in FASTER.items():
        better = replay(programs, changed(core, name, factor), kept)
        for slow, fast in zip(nominal, better, strict=True):
            assert (np.asarray(fast.end_s) <= np.asarray(slow.end_s)).all(), name


@pytest.mark.parametrize("policy", [COMPILER, ISSUED], ids=lambda policy: policy.name)
@pytest.mark.parametrize("number", range(4))
def test_a_kernel_is_timed_as_the_plain_scheduler_does(number, policy):
    kernel, arrays = list(kernels())[number]
    if kernel.title == "step1":
        arrays = [array[:256, :128] for array in arrays]
    programs = [t.program for t in trnsim.run(kernel, *arrays, numerics=False).timelines]
    core = programs[0].core
    found = replay(programs, core, choose_order(programs, core, policy))
    for one, plain in zip(found, plain_schedules(programs, core, policy), strict=True):
        assert list(one.start_s) == pytest.approx(plain.start_s, rel=1e-9, abs=0)
        assert list(one.end_s) == pytest.approx(plain.end_s, rel=1e-9, abs=0)
