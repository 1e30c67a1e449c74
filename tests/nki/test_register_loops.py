"""A `while` over a register is a loop on the device: its turns are known, and compared."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import trnsim
from trnsim.errors import IllegalInstruction


def counted(x, turns, kind):
    """Adds one to x in a loop `while register:`, whose Python may have a state of its own."""
    tile, left = nl.load(x), nl.load(turns)
    register = nisa.register_alloc()
    nisa.register_load(register, left)
    count = 0
    while register:
        count += 1
        nisa.tensor_scalar(tile, tile, op0=nl.add, operand0=float(count) if kind == "number" else 1)
        nisa.tensor_scalar(left, left, op0=nl.subtract, operand0=1)
        nisa.register_load(register, left)
        if kind == "more" and count > 1:
            nisa.tensor_scalar(tile, tile, op0=nl.add, operand0=1.0)
        if kind == "break" and count == 2:
            break
        if kind == "asked" and register:
            nisa.tensor_scalar(tile, tile, op0=nl.add, operand0=10.0 * count)
    nisa.tensor_scalar(tile, tile, op0=nl.multiply, operand0=2.0)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


@pytest.mark.parametrize("version", ["0.3", "0.6"])
@pytest.mark.filterwarnings("ignore:a register")
def test_a_while_over_a_register_has_one_body(version):
    x, turns = np.zeros((4, 4), np.float32), np.array([[3]], np.int32)
    for kind, expected in (("same", 6), ("break", 4), ("asked", 66)):
        found = trnsim.run(nki.jit(counted), x, turns, kind, nki=version).outputs
        np.testing.assert_array_equal(found, expected)
    for kind in ("number", "more"):
        with pytest.raises(IllegalInstruction, match="the body is traced once") as caught:
            trnsim.run(nki.jit(counted), x, turns, kind, nki=version)
        assert caught.value.line.file == __file__
        nki.simulate(nki.jit(counted))(x, turns, kind)


@pytest.mark.filterwarnings("ignore:a register", "ignore:nl.dynamic_range")
def test_loops_over_registers_lie_in_other_loops():
    @nki.jit
    def kernel(x, turns):
        tile, register = nl.load(x), nisa.register_alloc()
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        for _ in nl.dynamic_range(0, 2):
            left = nl.load(turns)
            nisa.register_load(register, left)
            while register:
                inner = nl.load(turns)
                other = nisa.register_alloc()
                nisa.register_load(other, inner)
                while other:
                    nisa.tensor_scalar(tile, tile, op0=nl.add, operand0=1.0)
                    nisa.tensor_scalar(inner, inner, op0=nl.subtract, operand0=1.0)
                    nisa.register_load(other, inner)
                nisa.tensor_scalar(left, left, op0=nl.subtract, operand0=1.0)
                nisa.register_load(register, left)
        nl.store(out, tile)
        return out

    x, turns = np.zeros((4, 4), np.float32), np.array([[3]], np.int32)
    found = trnsim.run(kernel, x, turns, nki="0.6").outputs
    np.testing.assert_array_equal(found, 18)


@pytest.mark.filterwarnings("ignore:a register", "ignore:nl.dynamic_range")
def test_a_loop_that_was_left_may_begin_again_in_another():
    @nki.jit
    def kernel(x, turns):
        tile, register = nl.load(x), nisa.register_alloc()
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.register_load(register, nl.load(turns))
        for _ in nl.dynamic_range(0, 3):
            while register:
                nisa.tensor_scalar(tile, tile, op0=nl.add, operand0=1.0)
                break
            break
        for _ in nl.dynamic_range(0, 3):
            nisa.tensor_scalar(tile, tile, op0=nl.multiply, operand0=2.0)
        nl.store(out, tile)
        return out

    x, turns = np.zeros((4, 4), np.float32), np.array([[3]], np.int32)
    np.testing.assert_array_equal(trnsim.run(kernel, x, turns, nki="0.6").outputs, 8)


@pytest.mark.filterwarnings("ignore:a register")
def test_an_instruction_waits_for_none_of_an_earlier_turn():
    @nki.jit
    def kernel(x, turns, is_outside):
        tile, left = nl.load(x), nl.load(turns)
        register, first = nisa.register_alloc(), None
        nisa.register_load(register, left)
        while register:
            added = nisa.tensor_scalar(tile, tile, op0=nl.add, operand0=1.0)
            first = added if first is None else first
            nisa.tensor_scalar(left, left, op0=nl.subtract, operand0=1.0).depends_on(
                first if is_outside else added
            )
            nisa.register_load(register, left)
        return x

    x, turns = np.zeros((4, 4), np.float32), np.array([[3]], np.int32)
    trnsim.run(kernel, x, turns, False, nki="0.6")
    with pytest.raises(IllegalInstruction, match="an earlier turn of its loop"):
        trnsim.run(kernel, x, turns, True, nki="0.6")
