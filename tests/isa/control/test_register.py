"""Registers: arithmetic, one-element loads and stores, loops that they steer."""

import copy

import numpy as np
import pytest

import trnsim
from trnsim.dtypes import FLOAT8_E4M3FN_X4
from trnsim.errors import IllegalInstruction, NotModelled, UndefinedBehavior, Unspecified
from trnsim.isa import (
    Engine,
    Iota,
    RegisterAlloc,
    RegisterLoad,
    RegisterMove,
    RegisterStore,
    VirtualRegister,
)
from trnsim.memory import Memory
from trnsim.nki import isa as nisa
from trnsim.nki import jit
from trnsim.nki import language as nl

pytestmark = pytest.mark.filterwarnings("ignore::trnsim.nki.notices.DynamicLoopWarning")
INT = np.int32


def test_a_register_reads_as_an_integer():
    register = VirtualRegister(7)
    assert (int(register), list(range(10))[register], bool(register)) == (7, 7, True)
    assert not VirtualRegister(0)
    assert register == 7
    with pytest.raises(IllegalInstruction, match="== of two registers"):
        bool(register == VirtualRegister(7))
    with pytest.raises(IllegalInstruction, match=r"== of a register and 7.0; legal: .* with integ"):
        bool(register == 7.0)
    with pytest.raises(IllegalInstruction, match="__divmod__ of a register; legal: "):
        divmod(register, 2)
    assert repr(register) == f"{register}" == "VirtualRegister(7)"
    with pytest.raises(IllegalInstruction, match="an f-string with the format '03d'; legal: "):
        f"{register:03d}"
    assert {register: 1}[register] == 1


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (lambda r: r + 2, 9),
        (lambda r: 2 + r, 9),
        (lambda r: r - 2, 5),
        (lambda r: 20 - r, 13),
        (lambda r: r * 3, 21),
        (lambda r: 3 * r, 21),
        (lambda r: r // 2, 3),
        (lambda r: 15 // r, 2),
        (lambda r: r % 4, 3),
        (lambda r: 15 % r, 1),
        (lambda r: r + VirtualRegister(1), 8),
    ],
)
def test_arithmetic_gives_a_new_register(result, expected):
    register = VirtualRegister(7)
    made = result(register)
    assert isinstance(made, VirtualRegister)
    assert made.value == expected
    assert register.value == 7


def test_a_register_that_nothing_filled_cannot_be_read():
    with pytest.raises(UndefinedBehavior, match="read before anything was put there") as caught:
        int(VirtualRegister())
    assert "register_alloc" in caught.value.fix


def test_the_induction_register_of_a_loop_is_not_the_bodys_to_write():
    with pytest.raises(UndefinedBehavior, match="induction register"):
        VirtualRegister(1, frozen=True).put(2)


def test_alloc_takes_an_integer_or_nothing(bench):
    bench = bench()
    for x, held in ((None, None), (5, 5), (np.int32(-3), -3)):
        instruction = RegisterAlloc(x)
        bench.context.issue(instruction)
        register = instruction.result()
        assert register._state == held
    with pytest.raises(IllegalInstruction, match=r"x is float; legal: an integer, or None"):
        bench.context.issue(RegisterAlloc(1.5))


def test_a_tensor_is_no_initial_value(bench):
    bench = bench()
    with pytest.raises(IllegalInstruction, match="x is Tile"):
        bench.context.issue(RegisterAlloc(bench.tile(np.zeros((1, 1), INT))))


def test_move_copies_an_integer_or_a_register(bench):
    bench, register, other = bench(), VirtualRegister(), VirtualRegister(9)
    bench.context.issue(RegisterMove(register, 4))
    assert register == 4
    bench.context.issue(RegisterMove(register, other))
    other.put(1)
    assert register == 9


@pytest.mark.parametrize(
    ("dst", "src", "legal", "fix"),
    [
        (3, 3, "legal: a register", "register_alloc"),
        (VirtualRegister(0), 1.5, "legal: an integer, or a register", "register_load"),
    ],
)
def test_move_refuses_what_is_neither(bench, dst, src, legal, fix):
    with pytest.raises(IllegalInstruction, match=legal) as caught:
        bench().context.issue(RegisterMove(dst, src))
    assert fix in caught.value.fix


@pytest.mark.parametrize("memory", [Memory.SBUF, Memory.HBM])
@pytest.mark.parametrize(
    ("value", "dtype"), [(-5, INT), (2**31 - 1, INT), (200, np.uint8), (2**32 - 1, np.uint32)]
)
def test_load_reads_the_one_element_and_store_writes_it_back(bench, memory, value, dtype):
    bench, register = bench(), VirtualRegister()
    tile = bench.tile(np.array([[value]], dtype), memory=memory)
    bench.context.issue(RegisterLoad(register, tile))
    assert register == value
    back = bench.empty((1, 1), dtype, memory)
    bench.issue(RegisterStore(back, register))
    assert back.bits().tolist() == [[value]]
    assert back.is_written()


@pytest.mark.parametrize("shape", [(1, 2), (2, 1)])
def test_load_and_store_take_one_element(bench, shape):
    bench, register = bench(), VirtualRegister(1)
    tile = bench.tile(np.ones(shape, INT))
    for instruction in (RegisterLoad(register, tile), RegisterStore(tile, register)):
        with pytest.raises(IllegalInstruction, match="legal: one element"):
            bench.context.issue(instruction)


def test_load_and_store_reach_no_psum(bench):
    bench, register = bench(), VirtualRegister(1)
    tile = bench.tile(np.ones((1, 1), INT), memory=Memory.PSUM)
    for instruction in (RegisterLoad(register, tile), RegisterStore(tile, register)):
        with pytest.raises(IllegalInstruction, match="PSUM"):
            bench.context.issue(instruction)


def test_load_and_store_need_a_register(bench):
    bench = bench()
    tile = bench.tile(np.ones((1, 1), INT))
    for instruction in (RegisterLoad(5, tile), RegisterStore(tile, 5)):
        with pytest.raises(IllegalInstruction, match="is int; legal: a register"):
            bench.context.issue(instruction)


def test_the_sync_engine_pays_one_step_for_each(bench):
    bench = bench()
    tile = bench.tile(np.ones((1, 1), INT))
    for instruction in (
        RegisterAlloc(1),
        RegisterMove(VirtualRegister(), 1),
        RegisterLoad(VirtualRegister(), tile),
        RegisterStore(tile, VirtualRegister(1)),
    ):
        assert instruction.chosen_engine(bench.core) is Engine.sync
        assert bench.cost(instruction).interval_s == float(bench.core.register_s)


# In kernels


@jit
def counted(a, bound):
    """The first `bound` columns of `a`, by a device loop."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=nl.zeros(a.shape, a.dtype))
    tile = nl.load(a)
    limit = nisa.register_alloc()
    nisa.register_load(limit, bound)
    for i in nl.dynamic_range(limit):
        nisa.dma_copy(dst=out[:, nl.ds(i, 1)], src=tile[:, nl.ds(i, 1)])
    return out


@pytest.mark.parametrize("bound", [0, 1, 5])
def test_a_loaded_register_bounds_a_loop(random, bound):
    a = random((4, 8))
    expected = np.where(np.arange(8) < bound, a, 0)
    got = trnsim.run(counted, a, np.array([bound], INT)).outputs
    np.testing.assert_array_equal(got, expected)


def test_a_loop_whose_bound_is_in_memory_needs_values(random):
    with pytest.raises(NotModelled, match="shape-only run"):
        trnsim.run(counted, random((4, 8)), np.array([5], INT), numerics=False)


def test_a_moved_register_bounds_a_loop_without_values_too(random):
    @jit
    def kernel(a):
        tile = nl.load(a)
        limit = nisa.register_alloc(1)
        nisa.register_move(limit, 3)
        for _ in nl.dynamic_range(limit):
            nisa.tensor_copy(dst=tile, src=tile)
        return a

    lengths = {
        len(trnsim.run(kernel, random((4, 8)), numerics=numerics).program)
        for numerics in (True, False)
    }
    assert lengths == {1 + 2 + 3}


def test_arithmetic_of_a_register_takes_integers_alone():
    register = VirtualRegister(7)
    for other in ("x", None, 2.5):
        with pytest.raises(IllegalInstruction, match="legal: registers and integers"):
            _ = register + other
    for divided in (lambda: register // 0, lambda: register % VirtualRegister(0)):
        with pytest.raises(UndefinedBehavior, match="a register is divided by zero"):
            divided()


@pytest.mark.parametrize(
    "use",
    [lambda r: r < 4, lambda r: r <= 4, lambda r: r / 2, lambda r: 3 & r, lambda r: -r, abs],
)
def test_a_register_has_no_other_operators(use):
    with pytest.raises(IllegalInstruction, match=r"of a register; legal: \+ - \*") as caught:
        use(VirtualRegister(7))
    assert "register_load" in caught.value.fix


@pytest.mark.parametrize("value", [2**32, -(2**31) - 1])
def test_a_register_has_32_bits(bench, value):
    for made in (RegisterAlloc(value), RegisterMove(VirtualRegister(0), value)):
        with pytest.raises(IllegalInstruction, match=f"{value} in a register; legal: 32 bits"):
            bench().context.issue(made)
    bench().context.issue(RegisterAlloc(2**32 - 1))


@pytest.mark.parametrize("value", [np.nan, np.inf, 2.5, 1e20, 2.0**32, -(2.0**32)])
def test_how_a_register_rounds_is_unspecified(bench, value):
    work, register = bench(), VirtualRegister()
    with pytest.raises(Unspecified, match="AWS does not say how a register rounds"):
        work.context.issue(RegisterLoad(register, work.tile(np.full((1, 1), value, np.float32))))
    work.context.issue(RegisterLoad(register, work.tile(np.full((1, 1), -6, np.float32))))
    assert register == -6


def test_four_packed_numbers_are_no_number(bench, core_v4):
    work = bench(core_v4)
    with pytest.raises(IllegalInstruction, match="legal: a number of up to 32 bits"):
        RegisterLoad(VirtualRegister(), work.empty((1, 1), FLOAT8_E4M3FN_X4)).verify(work.core)


def test_a_deep_copy_of_what_names_a_register_names_the_same_one():
    register = VirtualRegister(3)
    (copied,) = copy.deepcopy([register])
    copied.put(5)
    assert register.value == 5


# Who waits for registers


def waits(work, index):
    """The opcodes of the instructions that instruction `index` waits for, by their places."""
    return {i: work.program.instruction(i).opcode for i in work.program.waits_for(index)}


def loaded(work, value=1):
    """A register that holds `value`, loaded from SBUF; and the place of the load."""
    register = VirtualRegister()
    work.context.issue(RegisterLoad(register, work.tile(np.full((1, 1), value, INT))))
    return register, len(work.program) - 1


def counting(work, register):
    """An instruction of GpSimd that takes a register."""
    work.context.issue(Iota(work.empty((4, 8), INT), ((1, 8),), register))
    return len(work.program) - 1


@pytest.mark.parametrize("has_values", [True, False])
def test_who_uses_a_register_waits_for_who_filled_it(bench, has_values):
    work = bench(has_values=has_values)
    register, load = loaded(work)
    for _ in range(2):
        index = counting(work, register)
        assert waits(work, index) == {load: "register_load"}
        timeline = work.timeline
        ready_s = timeline.span(load).end_s + float(work.core.engine_semaphore_s)
        assert timeline.span(index).start_s >= ready_s
    assert waits(work, counting(work, 3)) == {}


def test_a_register_that_was_filled_again_has_only_its_last_filler(bench):
    work = bench()
    register, first = loaded(work)
    user = counting(work, register)
    work.context.issue(RegisterMove(register, 5))
    again = len(work.program) - 1
    assert waits(work, again) == {}  # who reads a register does so as it starts
    assert waits(work, counting(work, register)) == {again: "register_move"}
    assert waits(work, user) == {first: "register_load"}


@pytest.mark.parametrize(
    "derive",
    [
        lambda a, b: a + b,
        lambda a, b: 1 + (b * 2 - a),
        lambda a, b: (a.duplicate() // 1) % (b.duplicate() + 4),
    ],
)
def test_arithmetic_and_copies_have_the_fillers_of_what_they_come_from(bench, derive):
    work = bench()
    (one, first), (other, second) = loaded(work), loaded(work, 2)
    derived = derive(one, other)
    work.context.issue(RegisterMove(one, 9))  # later, and no part of it
    both = {first: "register_load", second: "register_load"}
    assert waits(work, counting(work, derived)) == both


def test_the_engine_that_fills_registers_keeps_its_own_order(bench):
    work = bench()
    register, _ = loaded(work)
    work.context.issue(RegisterMove(VirtualRegister(), register))
    work.context.issue(RegisterStore(work.empty((1, 1), INT), register))
    for index in (1, 2):
        assert waits(work, index) == {}


def test_nobody_waits_for_a_number_that_the_kernel_was_compiled_with(bench):
    work = bench()
    work.context.issue(RegisterAlloc(3))
    assert waits(work, counting(work, RegisterAlloc(3).result())) == {}


def test_a_register_of_an_earlier_run_has_no_filler_in_this_one(bench):
    register, _ = loaded(bench())
    work = bench()
    loaded(work)
    assert waits(work, counting(work, register)) == {}


@jit
def gathered(a, rows):
    """The rows of `a` that `rows` names, one transfer each by way of a register."""
    out = nl.ndarray((rows.shape[0], a.shape[1]), dtype=a.dtype, buffer=nl.shared_hbm)
    place = nisa.register_alloc()
    for row in range(rows.shape[0]):
        nisa.register_load(place, rows[row])
        nisa.dma_copy(dst=out[row : row + 1], src=a[nl.ds(place, 1)])
    return out


@pytest.mark.parametrize("numerics", [True, False])
def test_a_transfer_waits_for_the_register_that_says_where_it_lies(random, numerics):
    a, rows = random((8, 16)), np.array([5, 0, 7], INT)
    run = trnsim.run(gathered, a, rows, numerics=numerics)
    opcodes = [run.program.instruction(i).opcode for i in range(len(run.program))]
    loads = [i for i, opcode in enumerate(opcodes) if opcode == "register_load"]
    copies = [i for i, opcode in enumerate(opcodes) if opcode == "dma_copy"]
    assert len(loads) == len(copies) == len(rows)
    for load, copy_ in zip(loads, copies, strict=True):
        assert list(run.program.waits_for(copy_)) == [load]
        assert list(run.program.waits_for(load)) == []
    if numerics:
        np.testing.assert_array_equal(run.outputs, a[rows])


def test_a_while_loop_passes_on_who_filled_its_condition(random):
    @jit
    def kernel(a, flags):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=a)
        condition = nisa.register_alloc()
        nisa.register_load(condition, flags[0])

        def body(place):
            nisa.dma_copy(dst=out[nl.ds(place, 1)], src=a[0:1])
            following = nisa.register_alloc()
            nisa.register_load(following, flags[1])
            return following

        nl.while_loop(condition, body)
        return out

    a = random((4, 8))
    run = trnsim.run(kernel, a, np.array([2, 0], INT))
    np.testing.assert_array_equal(run.outputs, a[[0, 1, 0, 3]])
    program = run.program
    opcodes = [program.instruction(i).opcode for i in range(len(program))]
    load, copied = opcodes.index("register_load"), len(opcodes) - opcodes[::-1].index("dma_copy")
    assert load in program.waits_for(copied - 1)


def test_who_reads_a_register_is_told_of_until_it_is_refilled():
    reads = []
    register = VirtualRegister()
    register.put(3, lambda: reads.append(1))
    copied = register.duplicate()
    assert not reads
    looks = (int, bool, repr, list([0] * 9).__getitem__, lambda one: one + 1, lambda one: one == 3)
    for number, look in enumerate(looks, 1):
        look(register)
        assert len(reads) == number
    int(copied)
    assert len(reads) == len(looks) + 1
    register.put(4)
    int(register)
    assert len(reads) == len(looks) + 1
