"""Calls that come again: compared with a record, and traced from the first difference on."""

# nki: 0.5

import dataclasses
import enum
import gc
import random as randomness
import sys
import threading
import weakref
from typing import NamedTuple

import ml_dtypes
import numpy as np
import pytest

import trnsim
from trnsim.errors import EmulatorError, IllegalInstruction, OutOfMemory
from trnsim.nki import isa as nisa
from trnsim.nki import jit
from trnsim.nki import language as nl
from trnsim.program import records
from trnsim.runs import collecting, watching
from trnsim.user_warnings import SpillWarning

BF16 = ml_dtypes.bfloat16


@pytest.fixture
def traced(monkeypatch):
    """The instructions that had to be recorded, as the test goes on: none in a call that agrees."""
    seen = []
    context = trnsim.program.CoreContext
    append = context._record_new

    def noting(core, info, *rest):
        seen.append(info.checked.opcode)
        append(core, info, *rest)

    monkeypatch.setattr(context, "_record_new", noting)
    return seen


def called(kernel, *args, times=2, **options):
    """Runs of `kernel`, from one line; after two the next one is compared with a record."""
    return [trnsim.run(kernel, *args, **options) for _ in range(times)]


def told(run):
    """Everything that a run says, without the numbers that differ from run to run."""
    program = run.program
    return {
        "outputs": [np.asarray(output).tobytes() for output in np.atleast_1d(run.outputs)],
        "spans": [str(span) for span in run.timeline.spans()],
        "waits": [list(program.waits_for(i)) for i in range(len(program))],
        "uses": [str(use) for use in program.uses.values()],
        "distinct": [checked.describe() for checked in program.checked],
        "warnings": run.warnings,
    }


@jit
def product(lhs_t, rhs):
    """lhs_t.T @ rhs for [256, M] and [256, N], in two steps onto one PSUM tile."""
    out = nl.ndarray((lhs_t.shape[1], rhs.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    total = nl.ndarray(out.shape, dtype=nl.float32, buffer=nl.psum)
    for row in (0, 128):
        left = nl.load(lhs_t[row : row + 128])
        nisa.nc_matmul(dst=total, stationary=left, moving=nl.load(rhs[row : row + 128]))
    result = nl.ndarray(out.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=total)
    nisa.dma_copy(dst=out, src=result)
    return out


def scaled(x, factor=2.0):
    """x * factor."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=nl.multiply(nl.load(x), factor))
    return out


def test_a_third_call_is_checked_and_timed_as_the_second_was(traced, random):
    arrays = [random((256, 128)).astype(BF16) for _ in range(2)]
    others = [random((256, 128), seed=seed).astype(BF16) for seed in (3, 4)]
    fresh = jit(product.__wrapped__)
    first, second, third = (trnsim.run(fresh, *given) for given in (arrays, arrays, others))
    assert len(traced) == 2 * len(first.program)
    assert third.timeline is second.timeline
    exact = trnsim.run(jit(product.__wrapped__), *others)
    assert third.outputs.tobytes() == exact.outputs.tobytes() != first.outputs.tobytes()
    assert told(third)["spans"] == told(exact)["spans"]


def test_functions_of_the_language_agree_without_being_checked_again(monkeypatch, random):
    kernel, x, checked = jit(scaled), random((4, 8)), []

    def again():
        return trnsim.run(kernel, x).outputs

    again(), again()
    monkeypatch.setattr(
        trnsim.program.CoreContext, "issue", lambda _, instruction: checked.append(instruction)
    )
    for factor in (1, 3):  # the bytecode of each call is known from the third run on
        x *= np.float32(factor)
        np.testing.assert_array_equal(again(), 2 * x)
    assert not checked


def test_a_function_of_the_language_on_another_line_leaves_the_record(random):
    is_other, x = False, random((4, 8))

    @jit
    def kernel(x):
        out, tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm), nl.load(x)
        if is_other:
            nl.store(out, nl.multiply(tile, 2.0))
        else:
            nl.store(out, nl.multiply(tile, 2.0))
        return out

    def lines():
        return [line.line for line in trnsim.run(kernel, x).program.lines]

    *_, known = (lines() for _ in range(4))
    is_other = True
    other = lines()
    assert [a - b for a, b in zip(known, other, strict=True)] == [0, 2]


def test_results_are_new_arrays_and_inputs_are_written_in_place(random):
    @jit
    def tripled(x):
        tile = nl.load(x)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=3.0)
        nisa.dma_copy(dst=x, src=tile)
        return scaled(x)

    results = []
    for factor in (1, 2, 3, 4):
        x = random((4, 8))
        given = np.float32(factor) * x
        results.append(trnsim.run(tripled, given).outputs)
        np.testing.assert_array_equal(given, np.float32(factor) * x * np.float32(3))
        np.testing.assert_array_equal(results[-1], 2 * given)
    assert not any(np.shares_memory(results[-1], other) for other in results[:-1])


# What made a call give old values while a static proof stood in for the call itself.


class Colour(enum.Enum):
    RED = 1.0


class Pair(NamedTuple):
    factor: float = 2.0


@dataclasses.dataclass
class Settings:
    factor: float = 2.0


class Base:
    factor = 2.0


def by_ufunc(box):
    return float(np.frompyfunc(lambda _: box[0], 1, 1)(0))


def by_exec(box):
    names = {**vars(nl), "box": box}
    exec("def found(): return box[0]", names)  # noqa: S102  it is what is tested
    return names["found"]()


def by_subclasses(box):
    if box[0] != 2.0:
        type("Derived", (Base,), {"factor": box[0]})
        gc.collect()
    return max([Base.factor, *(kind.factor for kind in Base.__subclasses__())])


def by_globals(box):
    by_globals.__globals__["_hidden"] = box[0]
    return globals()["_hidden"]


def by_default(box):
    Settings.__init__.__defaults__ = (box[0],)
    return Settings().factor


def by_enumeration(box):
    Colour.RED._value_ = box[0]
    return Colour.RED.value


def by_named_tuple(box):
    Pair.__new__.__defaults__ = (box[0],)
    return Pair().factor


def by_earlier_output(box):
    EARLIER[0] = box[0]
    return float(EARLIER[0])


EARLIER = np.zeros(1)


def by_local_module(box):
    import math as local  # noqa: PLC0415  it is what is tested

    return local.sqrt(box[0] ** 2)


def by_dictionary(box):
    return {"deep": {"deeper": box}}["deep"]["deeper"][0]


def by_closure(box):
    def found():
        return box[0]

    return found()


def by_property(box):
    return type("Box", (), {"factor": property(lambda _: box[0])})().factor


def by_sign(box):
    return 1.0 if str(complex(1, -0.0 if box[0] == 2.0 else 0.0)).endswith("-0j)") else box[0]


def by_format(box):
    return float(f"{box[0]:.1f}")


def by_trace(box):
    return box[0] if sys._getframe().f_back is not None else 0.0


WAYS = [value for name, value in list(globals().items()) if name.startswith("by_")]


@pytest.mark.slow_cases("by_subclasses")
@pytest.mark.parametrize("way", WAYS)
def test_what_the_kernel_reads_anew_counts(way, random):
    box = [2.0]

    @jit
    def kernel(x):
        return scaled(x, way(box))

    x = random((4, 8))
    for value in (2.0, 2.0, 2.0, 5.0, 5.0, 5.0, 3.0, 7.0):
        box[0] = value
        expected = way(box)
        result = trnsim.run(kernel, x)
        np.testing.assert_array_equal(result.outputs, x * np.float32(expected))


def test_the_kernel_is_called_each_time(capsys, random):
    calls_of_it = []

    @jit
    def kernel(x):
        calls_of_it.append(randomness.random())  # noqa: S311  no secret
        print("here")  # noqa: T201  as people do
        nl.device_print("row", nl.load(x))
        return scaled(x)

    called(kernel, random((4, 8)), times=4)
    assert len(set(calls_of_it)) == 4
    printed = capsys.readouterr().out
    assert printed.count("here") == printed.count("row") == 4


# Leaving the record.


def body(x, change):
    """A kernel with tiles that go, tiles with an address, accumulation, and a change at its end."""
    out = nl.ndarray((4, 64, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    spare = nl.ndarray((4, 64, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=spare, src=out if change == "unwritten" else x.reshape((4, 64, 64)))
    kept = nl.load(x[0:64])
    for turn in range(3 if change == "fewer" else 5 if change == "more" else 4):
        tile = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.sbuf, address=(0, 512 * (turn % 2)))
        nisa.dma_copy(dst=tile, src=x[turn % 4 * 64 : turn % 4 * 64 + 64])
        total = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)
        for _ in range(2):
            nisa.nc_matmul(dst=total, stationary=tile, moving=kept)
        result = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=result, src=total)
        nisa.dma_copy(dst=out[turn % 4], src=result)
    return changed(out, spare, kept, result, change)


def changed(out, spare, kept, result, change):
    """What differs, after nearly all of the kernel."""
    loop = nl.affine_range if change == "loop" else range
    width = 32 if change == "shape" else 64
    name = "other" if change == "name" else ""
    last = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.sbuf, name=name)
    for _ in loop(2):
        nisa.tensor_scalar(
            dst=last, data=kept, op0=nl.add if change == "operator" else nl.multiply,
            operand0=5.0 if change == "number" else 1.0,
        )  # fmt: skip
        nisa.tensor_tensor(dst=kept, data1=last, data2=result, op=nl.add)
    source = kept if change == "tensor" else last
    if change == "line":
        nisa.tensor_copy(dst=result[:, 0:width], src=source[:, 0:width])
    else:
        nisa.tensor_copy(dst=result[:, 0:width], src=source[:, 0:width])
    if change == "dead":
        again = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.sbuf, address=(0, 512))
        nisa.tensor_copy(dst=again, src=result)
    nisa.dma_copy(dst=(spare if change == "storage" else out)[3], src=result)
    if change == "illegal":
        nisa.tensor_copy(dst=result, src=kept[:, 0:32])
    return out


CHANGES = [
    *("fewer", "more", "loop", "shape", "name", "operator", "number", "tensor", "line", "dead"),
    *("storage", "illegal", "unwritten", "none"),
]


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("numerics", [True, False])
def test_a_call_that_leaves_its_record_tells_what_a_fresh_one_tells(change, numerics, random):
    now = [""]

    def function(x):
        return body(x, now[0])

    def outcome(kernel, x):
        try:
            return told(trnsim.run(kernel, x, numerics=numerics))
        except EmulatorError as error:
            return str(error), error.line

    again, x = jit(function), random((256, 64))
    for _ in range(3):
        known = outcome(again, x)
    now[0] = change
    y = random((256, 64), seed=3)
    fresh = outcome(jit(function), y)
    assert outcome(again, y) == fresh
    now[0] = ""
    for _ in range(3):
        assert outcome(again, x) == known


def test_a_call_that_ends_early_has_a_program_of_its_own(random):
    is_short = [False]

    @jit
    def kernel(x):
        out = scaled(x)
        if not is_short[0]:
            scaled(out)
        return out

    x = random((4, 8))
    lengths = []
    for is_short[0] in (False, False, False, True, False):
        lengths.append(len(trnsim.run(kernel, x).program))
    assert lengths == [6, 6, 6, 3, 6]


def test_a_loop_whose_iterations_depend_on_each_other_is_found_in_every_call(random):
    loop = [range]

    @jit
    def kernel(x):
        tile = nl.load(x)
        for _ in loop[0](3):
            other = nl.add(tile, 1.0)
            tile = nl.copy(other)
            nisa.tensor_copy(dst=other, src=tile)
        total = nl.zeros(x.shape, dtype=x.dtype)
        for _ in loop[0](2):
            nisa.tensor_copy(dst=tile, src=total)
            nisa.tensor_scalar(dst=total, data=tile, op0=nl.add, operand0=1.0)
        return scaled(x)

    x = random((4, 8))
    found = []
    for loop[0] in (range, range, range, nl.affine_range, nl.affine_range, nl.affine_range, range):
        found.append(bool(trnsim.run(kernel, x).carried))
    assert found == [False] * 3 + [True] * 3 + [False]


def test_an_error_of_the_values_is_met_at_the_kernels_line(random):
    @jit
    def gathered(x, index):
        out = nl.ndarray((8, x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.zeros(out.shape, dtype=x.dtype)
        source = x.ap([[x.shape[1], 8], [1, x.shape[1]]], vector_offset=nl.load(index))
        nisa.dma_copy(dst=tile, src=source)
        nisa.dma_copy(dst=out, src=tile)
        return out

    x, good = random((16, 8)), np.arange(8, dtype=np.int32).reshape(8, 1)
    called(gathered, x, good, times=3)
    errors = []
    for kernel in (gathered, jit(gathered.__wrapped__)):
        with pytest.raises(IllegalInstruction, match="index 16") as caught:
            trnsim.run(kernel, x, good + 12)
        errors.append((str(caught.value), caught.value.line))
    assert errors[0] == errors[1]
    other = np.array([3, 3, 0, 15, 7, 1, 2, 9], np.int32).reshape(8, 1)
    np.testing.assert_array_equal(trnsim.run(gathered, x, other).outputs, x[other[:, 0]])


def test_what_a_mask_leaves_unwritten_is_refused_in_every_call(random):
    @jit
    def masked(x, mask):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy_predicated(dst=tile, src=nl.load(x), predicate=nl.load(mask))
        nisa.dma_copy(dst=out, src=tile)
        return out

    x = random((4, 8))
    full, part = np.ones((4, 8), np.uint8), np.tri(4, 8, dtype=np.uint8)
    for mask in (full, full, full, part, full):
        if mask is full:
            np.testing.assert_array_equal(trnsim.run(masked, x, mask).outputs, x)
        else:
            with pytest.raises(EmulatorError, match="never written"):
                trnsim.run(masked, x, mask)


def test_a_register_decides_anew_how_long_a_loop_is(random):
    @jit
    def rows(x, count):
        """The first `count` rows, by a loop over a register."""
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=nl.zeros(x.shape, dtype=x.dtype))
        number = nisa.register_alloc(0)
        nisa.register_load(number, nl.load(count))
        for row in nl.dynamic_range(number):
            line = nl.ndarray((1, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=line, src=x[nl.ds(row, 1)])
            nisa.dma_copy(dst=out[nl.ds(row, 1)], src=line)
        return out

    x = random((4, 8))
    for count in (1, 1, 1, 2, 3, 4, 4, 4, 2):
        result = trnsim.run(rows, x, np.array([[count]], np.int32)).outputs
        np.testing.assert_array_equal(result[:count], x[:count])
        assert not result[count:].any()


def test_capacity_is_judged_in_every_call(random):
    @jit
    def full(x):
        tiles = [nl.load(x) for _ in range(15)]  # 15 x 16 KiB of 224 KiB a partition
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        for tile in tiles:
            nisa.dma_copy(dst=out, src=tile)
        return out

    x = random((128, 4096))
    for _ in range(4):
        with pytest.raises(OutOfMemory):
            trnsim.run(full, x, capacity="raise")
    for capacity in ("warn", "spill"):
        with pytest.warns(SpillWarning):
            runs = called(full, x, times=4, capacity=capacity)
        assert len({run.overfull for run in runs}) == len({run.total_time_s for run in runs}) == 1
        assert all(run.overfull for run in runs)
    with pytest.raises(OutOfMemory):
        trnsim.run(full, x, capacity="raise")


def test_a_call_from_another_line_has_a_record_of_its_own(traced, random):
    x, kernel = random((4, 8)), jit(scaled)
    called(kernel, x, times=3)
    traced.clear()
    run = trnsim.run(kernel, x)
    assert len(traced) == 3
    (line,) = {use.line for use in run.program.uses.values() if use.first_write < 0}
    assert line is None or line.file == __file__


def test_a_tile_of_an_earlier_run_is_refused_in_every_call(random):
    left = []

    @jit
    def kernel(x, is_own):
        tile = nl.load(x)
        mine = tile if is_own else left[0]
        left[:] = [tile]
        return scaled(nl.copy(mine))

    x = random((4, 8))
    for is_own in (True, True, True, False, True):
        if is_own:
            trnsim.run(kernel, x, is_own)
        else:
            with pytest.raises(IllegalInstruction, match="belongs to an earlier run"):
                trnsim.run(kernel, x, is_own)


@pytest.mark.parametrize(
    ("shape", "dtype", "options"),
    [
        ((4, 16), np.float32, {}),
        ((4, 8), BF16, {}),
        ((4, 8), np.float32, {"target": "trn3"}),
        ((4, 8), np.float32, {"numerics": False}),
        ((4, 8), np.float32, {"factor": 3.0}),
    ],
)
def test_another_call_is_told_as_a_fresh_one(shape, dtype, options, random):
    kernel, runs = jit(scaled), []
    for given in ({}, {}, {}, options):
        x = random(shape if given is options else (4, 8)).astype(dtype)
        runs = [trnsim.run(made, x, **given) for made in (kernel, jit(scaled))]
        assert told(runs[0]) == told(runs[1])


def test_a_long_program_has_no_record(traced, monkeypatch, random):
    monkeypatch.setattr(records, "MAX_STEPS", 2)
    called(jit(scaled), random((4, 8)), times=4)
    assert len(traced) == 12


def test_the_record_used_least_recently_goes(traced, monkeypatch, random):
    monkeypatch.setattr(records, "MAX_RECORDS", 2)
    kernel = jit(scaled)
    widths = (8, 8, 16, 16, 24, 24, 16, 8)
    counts = []
    for width in widths:
        traced.clear()
        trnsim.run(kernel, random((4, width)))
        counts.append(len(traced))
    assert counts == [3, 3, 3, 3, 3, 3, 0, 3]


@pytest.mark.slow
def test_arrays_are_let_go(random):
    x, kernel = random((128, 512)), jit(scaled)
    results = [weakref.ref(run.outputs.base) for run in called(kernel, x, times=4)]
    kept = weakref.ref(x)
    del x
    gc.collect()
    assert kept() is None
    assert [result() for result in results] == [None] * 4


def test_two_threads_may_call_one_kernel(random):
    x, kernel, wrong = random((128, 512)), jit(scaled), []

    def work(factor):
        for _ in range(20):
            result = trnsim.run(kernel, factor * x).outputs
            wrong.extend([factor] if (result != 2 * factor * x).any() else [])

    threads = [threading.Thread(target=work, args=(np.float32(f),)) for f in (1, 2, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_every_call_is_collected_and_says_how_far_it_is(monkeypatch, random):
    monkeypatch.setattr("trnsim.program.context._INSTRUCTIONS_PER_REPORT", 2)
    said = []
    with collecting() as runs, watching(said.append):
        called(jit(scaled), random((4, 8)), times=4)
    assert len(runs) == 4
    assert said == ["scaled on trn2: 0 instructions", "scaled on trn2: 2 instructions"] * 4


def test_a_run_inside_a_kernel_is_made_each_time(random):
    @jit
    def kernel(given):
        trnsim.run(jit(scaled), np.ones((4, 8), np.float32))
        return scaled(given)

    with collecting() as runs:
        called(kernel, random((4, 8)), times=4)
    assert len(runs) == 8


def test_a_call_that_fails_leaves_no_record(traced, random):
    is_wrong = [True]

    @jit
    def kernel(x):
        if is_wrong[0]:
            nl.load(x[0:9])
        return scaled(x)

    for _ in range(3):
        with pytest.raises(EmulatorError):
            trnsim.run(kernel, random((4, 8)))
    is_wrong[0] = False
    traced.clear()
    called(kernel, random((4, 8)))
    assert len(traced) == 6


@pytest.mark.parametrize("swapped", [False, True])
def test_a_call_that_uses_another_register_leaves_the_record(traced, random, swapped):
    """The registers look alike and hold the same; who filled the one that is used differs."""
    choice = [0]

    @jit
    def kernel(a, rows):
        out = nl.ndarray((1, a.shape[1]), dtype=a.dtype, buffer=nl.shared_hbm)
        registers = [nisa.register_alloc() for _ in range(2)]
        for register in registers:
            nisa.register_load(register, rows[0])
        nisa.dma_copy(dst=out, src=a[nl.ds(registers[choice[0]], 1)])
        return out

    a, rows = random((8, 16)), np.array([5], np.int32)
    expected = told(called(kernel, a, rows)[1])
    choice[0] = int(swapped)
    del traced[:]
    again = told(called(kernel, a, rows, times=1)[0])
    assert bool(traced) == swapped
    fresh = told(trnsim.run(jit(kernel.__wrapped__), a, rows))
    assert again["waits"] == fresh["waits"]
    assert again["spans"] == fresh["spans"]
    assert (again["waits"] != expected["waits"]) == swapped


def test_a_call_that_leaves_its_record_waits_for_registers_as_before(traced, random):
    changed = [False]

    @jit
    def kernel(a, rows):
        out = nl.ndarray((1, a.shape[1]), dtype=a.dtype, buffer=nl.shared_hbm)
        place = nisa.register_alloc()
        nisa.register_load(place, rows[0])
        tile = nl.load(a[nl.ds(place, 1)])
        if changed[0]:
            nisa.tensor_copy(dst=tile, src=tile)
        nisa.dma_copy(dst=out, src=tile)
        return out

    a, rows = random((8, 16)), np.array([5], np.int32)
    called(kernel, a, rows)
    changed[0] = True
    del traced[:]
    again = told(called(kernel, a, rows, times=1)[0])
    assert traced
    assert again["waits"] == told(trnsim.run(jit(kernel.__wrapped__), a, rows))["waits"]
    assert again["waits"][2] == [1]


# A call is compared before its instruction is made.


def calls_of(tiles):
    """By what is special in them: calls at one place of a kernel that issue different things."""
    dst, src, other, column = tiles
    scalar = {"dst": dst, "data": src, "op0": nl.multiply, "operand0": 2.0}
    copy = {"dst": dst, "src": src}
    return {
        "known": (nisa.tensor_scalar, (), scalar),
        "number": (nisa.tensor_scalar, (), {**scalar, "operand0": 3.0}),
        "computed": (nisa.tensor_scalar, (), {**scalar, "operand0": float("2.0")}),
        "zero": (nisa.tensor_scalar, (), {**scalar, "operand0": 0.0}),
        "minus": (nisa.tensor_scalar, (), {**scalar, "operand0": -0.0}),
        "type": (nisa.tensor_scalar, (), {**scalar, "operand0": 2}),
        "numpy": (nisa.tensor_scalar, (), {**scalar, "operand0": np.float32(2.0)}),
        "column": (nisa.tensor_scalar, (), {**scalar, "operand0": column}),
        "operator": (nisa.tensor_scalar, (), {**scalar, "op0": nl.add}),
        "text": (nisa.tensor_scalar, (), {**scalar, "op0": "multiply"}),
        "tensor": (nisa.tensor_scalar, (), {**scalar, "data": other}),
        "array": (nisa.tensor_scalar, (), {**scalar, "data": 1.0}),
        "part": (nisa.tensor_scalar, (), {**scalar, "dst": dst[:, 0:4], "data": src[:, 0:4]}),
        "swapped": (nisa.tensor_scalar, (), {**scalar, "dst": src, "data": dst}),
        "more": (nisa.tensor_scalar, (), {**scalar, "op1": nl.add, "operand1": 1.0}),
        "order": (nisa.tensor_scalar, (), dict(reversed(scalar.items()))),
        "fewer": (nisa.tensor_scalar, (), {"dst": dst, "data": src, "op0": nl.multiply}),
        "unknown": (nisa.tensor_scalar, (), {**scalar, "operand": 2.0}),
        "renamed": (nisa.tensor_scalar, (), {"dst": dst, "src": src, "op0": nl.add, "operand0": 1}),
        "positional": (nisa.tensor_scalar, (dst, src, nl.multiply, 2.0), {}),
        "mixed": (nisa.tensor_scalar, (dst,), {k: v for k, v in scalar.items() if k != "dst"}),
        "label": (nisa.tensor_scalar, (), {**scalar, "name": "label"}),
        "engine": (nisa.tensor_scalar, (), {**scalar, "engine": nisa.vector_engine}),
        "copied": (nisa.tensor_copy, (), copy),
        "moved": (nisa.dma_copy, (), copy),
        "language": (nl.add, (src, other), {}),
    }


SPECIAL = list(calls_of([np.zeros((2, 8))] * 4))


@pytest.mark.slow_but_every(5)
@pytest.mark.parametrize("known", ["known", "zero", "column", "text", "order", "moved"])
@pytest.mark.parametrize("special", SPECIAL)
def test_a_call_at_a_known_place_issues_what_it_issues_in_a_fresh_run(known, special, random):
    now = [""]

    def function(x, y):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        src, other, column = nl.load(x), nl.load(y), nl.load(y[:, 0:1])
        dst = nl.copy(src)
        issue, args, kwargs = calls_of([dst, src, other, column])[now[0]]
        for _ in range(2):
            issue(*args, **kwargs)
        nisa.dma_copy(dst=out, src=dst)
        return out

    def result(kernel):
        try:
            return told(trnsim.run(kernel, *inputs))
        except EmulatorError as error:
            return str(error)

    inputs, kernel = [random((4, 8)), random((4, 8), seed=2)], jit(function)
    for case in (known, known, known, known, special, known, special):
        now[0] = case
        assert result(kernel) == result(jit(function)), case


@pytest.mark.parametrize("way", ["number", "operator"])
def test_a_call_keeps_no_operand_of_an_earlier_one(way, monkeypatch):
    @jit
    def kernel(x):
        out, tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm), nl.load(x)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.maximum, operand0=sign * 0.0)
        nisa.dma_copy(dst=out, src=tile)
        return out

    x, sign = np.full((4, 8), -1.0, np.float32), 1.0
    called(kernel, x, times=2)
    for sign in (1.0, -1.0, 1.0, -1.0):
        bits = called(kernel, x, times=1)[0].outputs.view(np.uint32)
        assert {int(bit) for bit in bits.flat} == {0 if sign > 0 else 1 << 31}
    if way == "operator":
        monkeypatch.setattr(nl.maximum, "name", "minimum")
        np.testing.assert_array_equal(called(kernel, x, times=1)[0].outputs, x)


def test_calls_again_are_not_made_instructions_first(monkeypatch, random):
    kernel, compared = jit(product.__wrapped__), []
    arrays = [random((256, 128)).astype(BF16) for _ in range(2)]

    def again():
        return trnsim.run(kernel, *arrays).outputs

    first, *_ = (again() for _ in range(4))
    known = trnsim.program.CoreContext.issue_next

    def noting(core, instruction):
        compared.append(instruction.opcode)
        return known(core, instruction)

    monkeypatch.setattr(trnsim.program.CoreContext, "issue_next", noting)
    np.testing.assert_array_equal(again(), first)
    assert compared == ["dma_copy"] * 4  # of nl.load
