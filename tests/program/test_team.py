"""Two cores that run one kernel: determinism, shared tensors, what is read before it is written."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import trnsim
from trnsim import arch
from trnsim.errors import (
    BadInput,
    DataRace,
    IllegalInstruction,
    InternalError,
    UninitializedRead,
)
from trnsim.hazards import RaceDetector
from trnsim.program import Team, current_core, has_current_core
from trnsim.runs import launch

A = np.arange(8 * 16, dtype=np.float32).reshape(8, 16)


def shared(a):
    return nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)


def loaded(a):
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    return tile


@nki.jit
def swapped_halves(a):
    """Each core sends its half to the other and stores what it got."""
    rank = nl.program_id(0)
    half = a.shape[1] // 2
    out = shared(a)
    mine = nl.ndarray((a.shape[0], half), dtype=a.dtype, buffer=nl.sbuf)
    theirs = nl.ndarray((a.shape[0], half), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=mine, src=a[:, rank * half : (rank + 1) * half])
    nisa.sendrecv(src=mine, dst=theirs, send_to_rank=1 - rank, recv_from_rank=1 - rank, pipe_id=0)
    nisa.core_barrier(out, (0, 1))
    nisa.dma_copy(dst=out[:, rank * half : (rank + 1) * half], src=theirs)
    return out


def record(run):
    """All that a run says of its cores, but for the machine that it ran on."""
    return [
        [
            (
                p.instruction(i).opcode,
                p.instruction(i).describe(),
                p.line(i),
                [*p.waits_for(i)],
                [*p.follows(i)],
            )
            for i in range(len(p))
        ]
        for p in (timeline.program for timeline in run.timelines)
    ]


@pytest.fixture
def team(core_v3):
    return Team(core_v3, 2, watcher=RaceDetector(2))


def test_two_runs_give_equal_programs_and_outputs():
    first, second = (trnsim.run(swapped_halves[2], A) for _ in range(2))
    assert record(first) == record(second)
    assert [len(program) for program in record(first)] == [4, 4]
    np.testing.assert_array_equal(first.outputs, second.outputs)
    np.testing.assert_array_equal(first.outputs, np.hstack([A[:, 8:], A[:, :8]]))
    assert first.total_time_s == second.total_time_s


def test_a_run_without_values_records_the_same_program():
    run = trnsim.run(swapped_halves[2], A, numerics=False)
    assert record(run) == record(trnsim.run(swapped_halves[2], A))
    assert run.outputs is None


def test_results_come_by_rank_and_each_body_has_its_own_core(team):
    cores = team.run(current_core)
    assert cores == team.contexts
    assert [core.peer.rank for core in cores] == [0, 1]
    assert not has_current_core()


def test_a_team_of_one_needs_no_watcher(core_v3):
    team = Team(core_v3)
    assert team.run(lambda: current_core().peer) == [None]


def test_shared_tensors_match_by_order_and_not_by_name():
    @nki.jit
    def kernel(a):
        rank = nl.program_id(0)
        first = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm, name=f"first{rank}")
        second = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm, name=f"second{rank}")
        nisa.dma_copy(dst=(first, second)[rank], src=loaded(a))
        return first, second

    for output in trnsim.run(kernel[2], A).outputs:
        np.testing.assert_array_equal(output, A)


@pytest.mark.parametrize(
    ("shape", "dtype"), [((8, 15), nl.float32), ((8, 16), nl.bfloat16), ((128,), nl.float32)]
)
def test_shared_tensors_of_another_shape_or_dtype_on_the_other_core_are_refused(shape, dtype):
    @nki.jit
    def kernel(a):
        if nl.program_id(0) == 0:
            return nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        return nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm)

    with pytest.raises(IllegalInstruction, match=r"shared HBM tensor 0 is \[.* on this core and"):
        trnsim.run(kernel[2], A)


def test_a_read_of_shared_memory_that_nobody_ever_writes_is_uninitialised():
    @nki.jit
    def kernel(a):
        box = shared(a)
        tile = loaded(box)  # here
        nisa.dma_copy(dst=a, src=tile) if nl.program_id(0) == 2 else None
        return a

    with pytest.raises(UninitializedRead, match="dma_copy reads HBM") as caught:
        trnsim.run(kernel[2], A.copy())
    assert caught.value.line.file == __file__


def test_a_read_of_shared_memory_that_the_other_core_writes_later_is_a_race():
    @nki.jit
    def kernel(a):
        box, tile = shared(a), loaded(a)
        if nl.program_id(0) == 0:
            nisa.dma_copy(dst=tile, src=box)
        else:
            for _ in range(10):
                nisa.tensor_copy(dst=tile, src=tile)
            nisa.dma_copy(dst=box, src=tile)
        return box

    with pytest.raises(DataRace, match=r"writes .* while the other reads"):
        trnsim.run(kernel[2], A)


class ErrorOfTheKernelError(Exception):
    """Nothing that trnsim knows."""


@pytest.mark.parametrize("failing", [0, 1])
@pytest.mark.parametrize("where", ["before", "after"])
def test_an_exception_in_the_kernel_of_one_core_surfaces_as_itself(failing, where):
    @nki.jit
    def kernel(a):
        is_failing = nl.program_id(0) == failing
        if is_failing and where == "before":
            raise ErrorOfTheKernelError(failing)
        nisa.core_barrier(a, (0, 1))
        if is_failing:
            raise ErrorOfTheKernelError(failing)
        nisa.core_barrier(a, (0, 1))
        return a

    with pytest.raises(ErrorOfTheKernelError, match=str(failing)):
        trnsim.run(kernel[2], A)
    assert not has_current_core()
    np.testing.assert_array_equal(
        trnsim.run(swapped_halves[2], A).outputs[:, :8], A[:, 8:]
    )  # nothing is left behind


def test_an_illegal_instruction_on_one_core_names_its_line():
    @nki.jit
    def kernel(a):
        tile = loaded(a)
        if nl.program_id(0) == 1:
            a[0:9]  # here
        nisa.core_barrier(a, (0, 1))
        return tile

    with pytest.raises(IllegalInstruction, match="slice 0:9 of") as caught:
        trnsim.run(kernel[2], A)
    assert caught.value.line.file == __file__


def test_settings_of_awss_entry_points_hold_on_both_cores():
    @nki.jit
    def kernel(a):
        out = nl.ndarray((2, 8, 8), dtype=a.dtype, buffer=nl.shared_hbm)
        square = loaded(a[:, 0:8])
        product = nl.copy(nl.matmul(square, square))
        nisa.dma_copy(dst=out[nl.program_id(0)], src=product)
        return out

    with pytest.warns(UserWarning, match="AWS's simulator runs it"):
        outputs = nki.simulate(kernel[2])(A)
    np.testing.assert_array_equal(outputs, [A[:, :8] @ A[:, :8]] * 2)


@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_one_core_that_stands_for_both_takes_the_time_of_both(target):
    both = trnsim.run(swapped_halves[2], A, target=target, numerics=False)
    chip = arch.target(target)
    one = launch(swapped_halves, (A,), {}, chip, numerics=False, is_mirrored=True)
    assert record(one) == record(both)[:1]
    assert one.total_time_s == both.total_time_s
    assert one.timeline.launch_s == chip.core.paired_launch_s


def test_a_core_that_stands_for_both_has_no_values_and_no_other():
    for kernel, numerics in ((swapped_halves, True), (swapped_halves[2], False)):
        with pytest.raises(InternalError, match="a mirrored run is of one core and without"):
            launch(kernel, (A,), {}, arch.target("trn2"), numerics=numerics, is_mirrored=True)


def test_a_chip_without_logical_cores_has_no_second_core():
    with pytest.raises(BadInput, match="its cores cannot be paired"):
        launch(swapped_halves, (A,), {}, arch.target("trn1"), numerics=False, is_mirrored=True)
