"""Scalars: wrapped arithmetic, one-element loads and stores, refusals, who waits for them."""

import copy

import numpy as np
import pytest

from trnsim.dtypes import INT32, INT64
from trnsim.errors import IllegalInstruction, NotModelled
from trnsim.isa import (
    Engine,
    Iota,
    Scalar,
    ScalarArithmetic,
    ScalarLoad,
    ScalarStore,
    VirtualRegister,
)
from trnsim.isa.control.scalar import wrapped
from trnsim.memory import Memory

FORMATS = {INT32: np.int32, INT64: np.int64}


def scalar_of(value, dtype=INT32):
    scalar = Scalar(dtype)
    scalar.put(value)
    return scalar


NAMES = {"+": "add", "-": "subtract", "*": "multiply", "<": "less", "==": "equal"}


def computed(work, sign, x, y, dtype=INT32):
    """The scalar of an operator, issued on a core."""
    result = Scalar(dtype, is_comparison=sign not in "+-*")
    work.context.issue(ScalarArithmetic(NAMES[sign], x, y, dst=result))
    return result


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("memory", [Memory.SBUF, Memory.HBM])
def test_a_scalar_is_loaded_and_stored_bit_for_bit(bench, dtype, memory):
    work = bench()
    limits = np.iinfo(FORMATS[dtype])
    for value in (limits.min, -1, 0, limits.max):
        scalar = Scalar(dtype)
        work.context.issue(
            ScalarLoad(work.tile(np.array([[value]], FORMATS[dtype]), memory=memory), dst=scalar)
        )
        assert scalar.value == value
        back = work.empty((1, 1), dtype, memory)
        work.issue(ScalarStore(back, scalar))
        assert back.bits().tolist() == [[value]]
        assert back.is_written()


@pytest.mark.parametrize(
    ("dtype", "sign", "x", "y", "expected"),
    [
        (INT32, "*", 100_000, 100_000, 1_410_065_408),  # nki.isa.NkiScalar
        (INT32, "+", 2**31 - 1, 1, -(2**31)),
        (INT32, "-", -(2**31), 1, 2**31 - 1),
        (INT64, "*", 100_000, 100_000, 10**10),
        (INT64, "+", 2**63 - 1, 1, -(2**63)),
        (INT64, "*", 2**62, 4, 0),
    ],
)
def test_what_outgrows_the_width_wraps(bench, dtype, sign, x, y, expected):
    for left, right in ((scalar_of(x, dtype), y), (scalar_of(x, dtype), scalar_of(y, dtype))):
        assert computed(bench(), sign, left, right, dtype).value == expected
    assert wrapped({"+": x + y, "-": x - y, "*": x * y}[sign], dtype) == expected


def test_a_comparison_of_int32_is_recorded_and_that_of_int64_refused(bench):
    work = bench()
    compared = computed(work, "<", scalar_of(3), 4)
    assert (compared.is_comparison, len(work.program)) == (True, 1)
    for instruction in (
        ScalarStore(work.empty((1, 1), np.int32), compared),
        ScalarArithmetic("add", compared, 1, dst=Scalar(INT32)),
    ):
        with pytest.raises(IllegalInstruction, match="comparison, which nothing can use") as caught:
            work.context.issue(instruction)
        assert "on the device" in caught.value.fix
    with pytest.raises(IllegalInstruction, match=r"`==` of int64 scalars; legal at 64 bits: \+ -"):
        computed(work, "==", scalar_of(3, INT64), 3, INT64)


def test_scalars_of_two_widths_do_not_mix(bench):
    work = bench()
    with pytest.raises(IllegalInstruction, match="int32 \\+ int64 of two scalars") as caught:
        computed(work, "+", scalar_of(1), scalar_of(1, INT64), INT32)
    assert "never changes its width" in caught.value.fix
    with pytest.raises(IllegalInstruction, match="a scalar of int64 into HBM") as caught:
        work.context.issue(ScalarStore(work.empty((1, 1), INT32, Memory.HBM), scalar_of(1, INT64)))
    assert "convert in memory" in caught.value.fix


@pytest.mark.parametrize(("dtype", "constant"), [(INT32, 2**31), (INT64, -(2**63) - 1)])
def test_a_number_is_of_the_width_of_its_scalar(bench, dtype, constant):
    with pytest.raises(IllegalInstruction, match=f"{constant}; legal: numbers of") as caught:
        computed(bench(), "+", scalar_of(1, dtype), constant, dtype)
    assert "64" in caught.value.fix


@pytest.mark.parametrize("dtype", [np.uint32, np.uint8, np.float32])
def test_memory_of_a_scalar_is_a_signed_integer(bench, dtype):
    work = bench()
    tile = work.tile(np.ones((1, 1), dtype))
    for instruction in (ScalarLoad(tile, dst=Scalar(INT32)), ScalarStore(tile, scalar_of(1))):
        with pytest.raises(IllegalInstruction, match="legal dtypes: int32 or int64") as caught:
            work.context.issue(instruction)
        assert "tensor.view(nl.int32)" in caught.value.fix


def test_memory_of_a_scalar_is_one_element_outside_psum(bench):
    work = bench()
    for shape, memory, match in (
        ((1, 2), Memory.SBUF, "legal: one element"),
        ((1, 1), Memory.PSUM, "legal: SBUF or HBM"),
    ):
        tile = work.tile(np.ones(shape, np.int32), memory=memory)
        for instruction in (ScalarLoad(tile, dst=Scalar(INT32)), ScalarStore(tile, scalar_of(1))):
            with pytest.raises(IllegalInstruction, match=match):
                work.context.issue(instruction)


def test_only_a_scalar_is_stored(bench):
    work = bench()
    tile = work.tile(np.ones((1, 1), np.int32))
    for value, fix in ((5, "nisa.memset"), (VirtualRegister(5), "nisa.register_store")):
        with pytest.raises(IllegalInstruction, match="legal: an NkiScalar") as caught:
            work.context.issue(ScalarStore(tile, value))
        assert fix in caught.value.fix


def test_a_scalar_of_a_run_without_values_is_unknown_and_so_is_what_comes_of_it(bench):
    work = bench(has_values=False)
    loaded = Scalar(INT32)
    work.context.issue(ScalarLoad(work.tile(np.ones((1, 1), np.int32)), dst=loaded))
    derived = computed(work, "+", loaded, 1)
    assert (loaded.is_known, derived.is_known) == (False, False)
    with pytest.raises(NotModelled, match="a scalar was loaded from memory in a shape-only run"):
        _ = derived.value
    assert computed(work, "*", scalar_of(3), 4).value == 12


def test_a_deep_copy_of_what_names_a_scalar_names_the_same_one():
    scalar = scalar_of(3)
    assert copy.deepcopy([scalar])[0] is scalar


def test_the_sync_engine_pays_one_step_for_each(bench):
    work = bench()
    tile = work.tile(np.ones((1, 1), np.int32))
    for instruction in (
        ScalarLoad(tile, dst=Scalar(INT32)),
        ScalarArithmetic("add", scalar_of(1), 1, dst=Scalar(INT32)),
        ScalarStore(tile, scalar_of(1)),
    ):
        assert instruction.chosen_engine(work.core) is Engine.sync
        assert work.cost(instruction).interval_s == float(work.core.register_s)


@pytest.mark.parametrize("has_values", [True, False])
def test_a_consumer_waits_for_the_last_instruction_of_a_chain(bench, has_values):
    work = bench(has_values=has_values)
    loaded = Scalar(INT32)
    work.context.issue(ScalarLoad(work.tile(np.full((1, 1), 7, np.int32)), dst=loaded))
    derived = computed(work, "-", computed(work, "*", loaded, 4), loaded)
    store = ScalarStore(work.empty((1, 1), np.int32), derived)
    work.context.issue(store)
    # The sync engine keeps its own order; another engine would wait for the arithmetic.
    assert derived.origins[0][1] == 2
    with pytest.raises(NotModelled, match="iota: `offset` is a scalar") as caught:
        work.context.issue(Iota(work.empty((4, 8), np.int32), ((1, 8),), derived))
    assert "nisa.register_load" in caught.value.fix
