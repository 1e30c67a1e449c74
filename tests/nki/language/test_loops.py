"""Loops: Python's own, and those whose variable is a register."""

from contextlib import nullcontext

import numpy as np
import pytest

import trnsim
from trnsim.errors import IllegalInstruction, NotModelled, UndefinedBehavior
from trnsim.isa import VirtualRegister
from trnsim.isa.control import register
from trnsim.nki import isa as nisa
from trnsim.nki import jit
from trnsim.nki import language as nl

pytestmark = pytest.mark.filterwarnings("ignore::trnsim.nki.notices.DynamicLoopWarning")


@pytest.mark.parametrize("loop", [nl.affine_range, nl.sequential_range, nl.static_range, nl.range])
def test_a_loop_over_constants_is_pythons(loop):
    assert list(loop(2, 8, 3)) == [2, 5]


def test_a_device_loop_counts_in_registers():
    found = list(nl.dynamic_range(1, VirtualRegister(7), 2))
    assert [int(i) for i in found] == [1, 3, 5]
    assert all(isinstance(i, VirtualRegister) for i in found)
    assert [int(i) for i in nl.dynamic_range(3)] == [0, 1, 2]
    assert not list(nl.dynamic_range(VirtualRegister(0)))


def test_the_variable_of_a_device_loop_is_not_written_by_its_body():
    (first,) = nl.dynamic_range(1)
    with pytest.raises(UndefinedBehavior, match="the induction register of a loop"):
        first.put(3)


@pytest.mark.parametrize("step", [0, -1, VirtualRegister(1)], ids=str)
def test_a_device_loop_counts_up_by_a_constant(step):
    with pytest.raises(IllegalInstruction, match="legal: a positive integer"):
        nl.dynamic_range(0, 4, step)
    with pytest.raises(IllegalInstruction, match="legal: a positive integer"):
        nl.fori_loop(0, 4, print, step)


def test_fori_loop_calls_its_body_with_each_register():
    seen = []
    nl.fori_loop(0, VirtualRegister(3), lambda i: seen.append(int(i)))
    assert seen == [0, 1, 2]


def test_while_loop_runs_until_its_register_is_zero_and_not_at_all_for_zero():
    seen = []

    def body(register):
        seen.append(int(register))
        return register - 1

    nl.while_loop(VirtualRegister(3), body)
    nl.while_loop(VirtualRegister(0), body)
    assert seen == [3, 2, 1]


def test_the_registers_of_loops_with_a_body_are_passed_by_value():
    """nki.language.fori_loop and while_loop: "passed by value"."""
    start, seen = VirtualRegister(2), []

    def body(register):
        seen.append(register.value)
        register.put(register.value - 1)
        return register

    nl.while_loop(start, body)
    nl.fori_loop(5, VirtualRegister(7), lambda register: body(register) and None)
    assert (seen, start.value) == ([2, 1, 5, 6], 2)


def test_while_loop_wants_a_register_back():
    with pytest.raises(IllegalInstruction, match="a condition of type NoneType"):
        nl.while_loop(VirtualRegister(1), lambda _: None)


def test_no_reorder_admits_unrolled_loops_alone():
    with nl.no_reorder():
        assert list(nl.affine_range(2)) == [0, 1]
        for refused in (
            lambda: nl.dynamic_range(2),
            lambda: nl.fori_loop(0, 2, print),
            lambda: nl.while_loop(VirtualRegister(1), lambda r: r),
        ):
            with pytest.raises(IllegalInstruction, match=r"a device loop inside nl\.no_reorder"):
                refused()
    assert len(list(nl.dynamic_range(2))) == 2


@jit
def ordered_or_not(x, is_ordered):
    """A sum that waits for its transfer, then one that could start at once."""
    out = nl.ndarray((2, 128, 512), nl.float32, buffer=nl.shared_hbm)
    with nl.no_reorder() if is_ordered else nullcontext():
        ready = nl.zeros((128, 512), nl.float32)
        late = nl.load(x)
        nisa.tensor_scalar(late, late, nl.add, 1.0)
        nisa.tensor_scalar(ready, ready, nl.add, 2.0)
    nl.store(out[0], late)
    nl.store(out[1], ready)
    return out


@pytest.mark.parametrize(
    ("is_ordered", "order", "keeps"),
    [
        (False, "compiler", False),
        (False, "issued", True),
        (True, "compiler", True),
        (True, "issued", True),
    ],
)
def test_instructions_overtake_outside_no_reorder_alone(is_ordered, order, keeps):
    x = np.ones((128, 512), np.float32)
    run = trnsim.run(ordered_or_not, x, is_ordered, order=order)
    late, ready = (s for s in run.timeline.spans() if s.opcode == "tensor_scalar")
    assert (late.start_s < ready.start_s) is keeps
    np.testing.assert_array_equal(run.outputs, [x + 1, x + 1])


@jit
def running_sum(x, count):
    """``while reg:`` as NKI 0.4 spells it: x added `count` times."""
    acc = nl.zeros((1, 1), nl.float32)
    term, left, one = nl.load(x), nl.load(count), nl.full((1, 1), 1, nl.int32)
    register = nisa.register_alloc()
    nisa.register_load(register, left)
    while register:
        nisa.tensor_tensor(acc, acc, term, nl.add)
        nisa.tensor_tensor(left, left, one, nl.subtract)
        nisa.register_load(register, left)
    out = nl.ndarray((1, 1), nl.float32, buffer=nl.shared_hbm)
    nl.store(out, acc)
    return out


@pytest.mark.parametrize("count", [0, 1, 5])
def test_while_tests_the_register_at_the_head_of_the_loop(count):
    x = np.full((1, 1), 1.5, np.float32)
    found = trnsim.run(running_sum, x, np.full((1, 1), count, np.int32)).outputs
    assert found == 1.5 * count


@jit
def never_ending(x, how):
    flag = nl.full((1, 1), 3, nl.int32)
    condition = nisa.register_alloc()
    nisa.register_load(condition, flag)

    def body(again):
        nisa.register_load(again, flag)
        return again

    if how == "while_loop":
        nl.while_loop(condition, body)
    while condition:
        body(condition)
    return x


@pytest.mark.parametrize(("how", "loop"), [("while_loop", "nl.while_loop"), ("while", "a loop")])
def test_a_loop_that_never_ends_is_told_of_at_its_line(monkeypatch, how, loop):
    monkeypatch.setattr(register, "LONGEST_LOOP", 50)
    with pytest.raises(NotModelled) as caught:
        trnsim.run(never_ending, np.zeros((1, 1), np.float32), how)
    error, first = caught.value, never_ending.__wrapped__.__code__.co_firstlineno
    assert error.reason.startswith(loop)
    assert error.reason.endswith(
        "has run its body 50 times, and its condition is still 3; emulated: device loops of up to "
        "50 turns"
    )
    assert "let the flag become 0" in error.fix
    assert error.line.line == first + {"while_loop": 11, "while": 12}[how]


def test_a_loop_may_have_as_many_turns_as_are_emulated(monkeypatch):
    monkeypatch.setattr(register, "LONGEST_LOOP", 5)
    test_while_tests_the_register_at_the_head_of_the_loop(5)

    def counted(r):
        r.put(int(r) - 1)
        return r

    nl.while_loop(VirtualRegister(5), counted)
    assert len(list(nl.dynamic_range(5))) == 5
    with pytest.raises(NotModelled, match=r"a device loop over range\(2, 8\); emulated: up to 5 t"):
        nl.fori_loop(2, VirtualRegister(8), print)


def test_a_bound_of_garbage_is_told_of_at_once():
    with pytest.raises(NotModelled, match=r"range\(0, 2147483647\); .*\n.*registers of its bounds"):
        nl.dynamic_range(VirtualRegister(2**31 - 1))


@jit
def copied_dynamically(data):
    """One element a turn of the loop, at the loop's own register."""
    out = nl.zeros(data.shape, data.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((1, 1), data.dtype)
    for i in nl.dynamic_range(data.shape[1]):
        nisa.dma_copy(tile, data.ap([[1, 1], [1, 1]], scalar_offset=i, indirect_dim=1))
        nisa.dma_copy(out[:, nl.ds(i, 1)], tile)
    return out


def test_the_loops_register_is_an_offset(random):
    data = random((1, 6))
    np.testing.assert_array_equal(trnsim.run(copied_dynamically, data).outputs, data)


def test_affine_range_is_a_range_to_whoever_looks():
    loop = nl.affine_range(2, 11, 3)
    assert (len(loop), loop[1], loop[-1], list(reversed(loop))) == (3, 5, 8, [8, 5, 2])
    assert 5 in loop
    assert list(enumerate(nl.affine_range(2))) == [(0, 0), (1, 1)]


BODIES = {"none": "lambda: None", "two": "lambda a, b: None", "named": "lambda *, i: None"}


@pytest.mark.parametrize("loop", ["fori_loop(0, 1, {})", "while_loop(VirtualRegister(1), {})"])
@pytest.mark.parametrize("body", BODIES)
def test_a_body_takes_the_one_operand_that_its_loop_passes(loop, body):
    with pytest.raises(IllegalInstruction, match="a function of one operand") as caught:
        eval(f"nl.{loop.format(BODIES[body])}")  # noqa: S307
    assert caught.value.line.file == __file__
    assert "functools.partial" in caught.value.fix


@pytest.mark.parametrize("body", ["lambda i, j=0: None", "lambda *i: None", "print"])
def test_a_body_may_have_further_operands_of_its_own(body, capsys):
    nl.fori_loop(0, 1, eval(body))  # noqa: S307
    assert (capsys.readouterr().out != "") == (body == "print")


def test_no_reorder_takes_no_operand():
    with pytest.raises(IllegalInstruction, match=r"nl\.no_reorder: too many positional arguments"):
        nl.no_reorder(True)
