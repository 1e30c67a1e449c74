"""Calls that come again: executed without the kernel, and exactly as if it had been called."""

import enum
import gc
import sys
import threading
import weakref

import ml_dtypes
import numpy as np
import pytest

import trnsim
from trnsim.errors import EmulatorError, IllegalInstruction
from trnsim.nki import isa as nisa
from trnsim.nki import jit
from trnsim.nki import language as nl
from trnsim.nki.repeats import budget
from trnsim.program import Capture, CoreContext
from trnsim.run import collecting

BF16 = ml_dtypes.bfloat16
SCALE = 2.0


@pytest.fixture
def issued(monkeypatch):
    """The instructions that were issued, as the test goes on: none where a kernel is not called."""
    seen = []
    issue = CoreContext.issue
    monkeypatch.setattr(
        CoreContext, "issue", lambda core, given: (seen.append(given), issue(core, given))[1]
    )
    return seen


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


@jit
def scaled(x, factor=1.0):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=nl.multiply(nl.load(x), factor * SCALE))
    return out


@jit
def scaled_in_place(x):
    tile = nl.load(x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=3.0)
    nisa.dma_copy(dst=x, src=tile)
    return x


def called(kernel, *args, times=2, **options):
    """Runs of `kernel`, so that the next one is the first that may do without it."""
    return [trnsim.run(kernel, *args, **options) for _ in range(times)]


def test_the_third_call_does_without_the_kernel(issued, random):
    arrays = [random((256, 128)).astype(BF16) for _ in range(2)]
    first, second = called(product, *arrays)
    assert len(issued) == 2 * len(first.program)
    issued.clear()
    others = [random((256, 128)).astype(BF16) for _ in range(2)]
    third = trnsim.run(product, *others)
    assert not issued
    exact = trnsim.run(jit(product.__wrapped__), *others)
    assert third.outputs.tobytes() == exact.outputs.tobytes()
    assert third.total_time_s == first.total_time_s == second.total_time_s
    assert len(third.program) == len(first.program)
    assert [str(third.program.line(i)) for i in range(3)] == [
        str(first.program.line(i)) for i in range(3)
    ]
    assert third.summary == first.summary


def test_results_are_new_arrays_each_time(random):
    x = random((4, 8))
    called(scaled, x)
    third, fourth = trnsim.run(scaled, x).outputs, trnsim.run(scaled, 2 * x).outputs
    np.testing.assert_array_equal(third, 2 * x)
    np.testing.assert_array_equal(fourth, 4 * x)


def test_inputs_are_written_in_place(issued, random):
    x = random((4, 8))
    called(scaled_in_place, x.copy())
    issued.clear()
    given = x.copy()
    result = trnsim.run(scaled_in_place, given).outputs
    strided = np.zeros((4, 16), np.float32)
    strided[:, ::2] = x
    trnsim.run(scaled_in_place, strided[:, ::2])
    assert not issued
    np.testing.assert_array_equal(given, x * np.float32(3))
    np.testing.assert_array_equal(result, given)
    np.testing.assert_array_equal(strided[:, ::2], given)


def test_an_input_that_cannot_be_written_stays_as_it_is(issued, random):
    x = random((4, 8))
    x.flags.writeable = False
    called(scaled, x)
    issued.clear()
    np.testing.assert_array_equal(trnsim.run(scaled, x).outputs, 2 * x)
    assert not issued


def test_torch_tensors_give_torch_tensors(issued):
    torch = pytest.importorskip("torch")
    x = torch.arange(32.0).reshape(4, 8).to(torch.bfloat16)
    called(scaled, x)
    issued.clear()
    result = trnsim.run(scaled, x + 1).outputs
    assert not issued
    assert result.dtype is torch.bfloat16
    assert torch.equal(result, 2 * (x + 1))


@pytest.mark.parametrize(
    ("args", "options"),
    [
        ((np.ones((4, 16), np.float32),), {}),
        ((np.ones((4, 8), BF16),), {}),
        ((np.ones((4, 8), np.float32), 1), {}),
        ((np.ones((4, 8), np.float32), True), {}),
        ((np.ones((4, 8), np.float32), -0.0), {}),
        ((np.ones((4, 8), np.float32),), {"factor": 1.0}),
        ((np.ones((4, 8), np.float32),), {"target": "trn3"}),
        ((np.ones((4, 8), np.float32),), {"capacity": "warn"}),
    ],
)
def test_another_call_is_traced(args, options, issued):
    kernel = jit(scaled.__wrapped__)
    called(kernel, np.ones((4, 8), np.float32), times=3)
    called(kernel, np.ones((4, 8), np.float32), 0.0, times=3)
    issued.clear()
    trnsim.run(kernel, *args, **options)
    assert issued


class Settings(nl.NKIObject):
    weights: object
    factor: float = 1.0


class Plain:
    def __init__(self, factor):
        self.factor = factor

    def of(self, x):
        return scaled(x, self.factor)


def test_an_object_among_the_arguments_counts_by_what_it_holds(issued, random):
    @jit
    def kernel(settings):
        return scaled(settings.weights, settings.factor)

    x = random((4, 8))
    called(kernel, Settings(weights=x, factor=2.0))
    issued.clear()
    result = trnsim.run(kernel, Settings(weights=2 * x, factor=2.0)).outputs
    assert not issued
    np.testing.assert_array_equal(result, 8 * x)
    result = trnsim.run(kernel, Settings(weights=x, factor=3.0)).outputs
    assert issued
    np.testing.assert_array_equal(result, 6 * x)


def test_a_plain_object_among_the_arguments_is_read_by_the_kernel(issued, monkeypatch, random):
    @jit
    def kernel(x, plain):
        return plain.of(x)

    x = random((4, 8))
    called(kernel, x, Plain(2.0))
    issued.clear()
    trnsim.run(kernel, x, Plain(2.0))
    assert not issued
    np.testing.assert_array_equal(trnsim.run(kernel, x, Plain(3.0)).outputs, 6 * x)
    issued.clear()
    monkeypatch.setattr(Plain, "of", lambda _, x: scaled(x, 4.0))
    np.testing.assert_array_equal(trnsim.run(kernel, x, Plain(2.0)).outputs, 8 * x)
    assert issued


def test_an_array_that_stays_the_hosts_is_read_each_time(random):
    @jit
    def kernel(x, plain):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=nl.load(nl.shared_constant(plain.factor)))
        return out

    for seed in range(4):
        x = random((4, 8), seed=seed)
        np.testing.assert_array_equal(trnsim.run(kernel, x, Plain(x)).outputs, x)


def test_an_object_that_the_kernel_changes_is_changed_each_time(random):
    @jit
    def kernel(x, plain):
        plain.factor += 1
        return plain.of(x)

    for _ in range(4):
        plain = Plain(2.0)
        trnsim.run(kernel, random((4, 8)), plain)
        assert plain.factor == 3.0


@pytest.mark.parametrize("given", [nl.square, nl.float32, lambda tile: nl.add(tile, tile)])
def test_functions_and_operations_may_be_arguments(issued, given, random):
    @jit
    def kernel(x, what):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        nisa.dma_copy(dst=out, src=tile if what is nl.float32 else what(tile))
        return out

    x = random((4, 8))
    first, _ = called(kernel, x, given)
    issued.clear()
    third = trnsim.run(kernel, x, given)
    assert not issued
    assert third.outputs.tobytes() == first.outputs.tobytes()


def test_who_could_print_and_does_not_is_executed(issued, capsys, random):
    @jit
    def kernel(x, is_loud):
        if is_loud:
            print("loud")  # noqa: T201  as loggers do
        return scaled(x)

    called(kernel, random((4, 8)), False)
    issued.clear()
    trnsim.run(kernel, random((4, 8)), False)
    assert not issued
    called(kernel, random((4, 8)), True, times=4)
    assert capsys.readouterr().out.count("loud") == 4


class Node:
    def __init__(self):
        self.number = 1


def test_an_object_that_comes_to_hold_itself_is_traced(random):
    @jit
    def kernel(x, node):
        node.me = node
        return scaled(x)

    x = random((4, 8))
    for _ in range(4):
        np.testing.assert_array_equal(trnsim.run(kernel, x, Node()).outputs, 2 * x)


def test_the_same_object_twice_is_another_call_than_two(random):
    @jit
    def kernel(x, one, other):
        return scaled(x, 5.0 if one is other else 1.0)

    x, node = random((4, 8)), Plain(2.0)
    called(kernel, x, node, Plain(2.0), times=3)
    np.testing.assert_array_equal(trnsim.run(kernel, x, node, node).outputs, 10 * x)


DEFAULT = Plain(1.0)


def test_which_object_an_argument_is_counts_where_the_kernel_knows_one_by_name(random):
    @jit
    def kernel(x, plain):
        return scaled(x, 5.0 if plain is DEFAULT else 1.0)

    x = random((4, 8))
    called(kernel, x, DEFAULT, times=3)
    np.testing.assert_array_equal(trnsim.run(kernel, x, Plain(1.0)).outputs, 2 * x)
    np.testing.assert_array_equal(trnsim.run(kernel, x, DEFAULT).outputs, 10 * x)


def test_a_kernel_may_name_what_is_not_emulated(random):
    @jit
    def kernel(x, is_old):
        return nl.arange(3) if is_old else scaled(x)

    x = random((4, 8))
    for _ in range(4):
        np.testing.assert_array_equal(trnsim.run(kernel, x, False).outputs, 2 * x)


class Odd(enum.Enum):  # noqa: PLW1641  it has none
    A = 1
    B = 2

    def __eq__(self, other):
        return self is other


def test_an_argument_without_a_hash_counts_by_identity(issued, random):
    @jit
    def kernel(x, odd):
        return scaled(x, 3.0 if odd is Odd.A else 1.0)

    x = random((4, 8))
    called(kernel, x, Odd.A)
    issued.clear()
    np.testing.assert_array_equal(trnsim.run(kernel, x, Odd.A).outputs, 6 * x)
    assert not issued
    np.testing.assert_array_equal(trnsim.run(kernel, x, Odd.B).outputs, 2 * x)


def test_keys_count_by_their_types(random):
    @jit
    def kernel(x, table):
        (key,) = table
        return scaled(x, 3.0 if key is True else 1.0)

    x = random((4, 8))
    called(kernel, x, {1: 2}, times=3)
    np.testing.assert_array_equal(trnsim.run(kernel, x, {True: 2}).outputs, 6 * x)


def test_functions_among_the_arguments_are_let_go(random):
    @jit
    def kernel(x, function):
        return function(x)

    def made(big):
        return lambda x: scaled(x, float(big.size))

    kept = []
    for _ in range(3):
        big = np.zeros(3)
        kept.append(weakref.ref(big))
        trnsim.run(kernel, random((4, 8)), made(big))
        del big
    gc.collect()
    assert [reference() for reference in kept] == [None] * 3


def test_an_error_that_the_kernel_swallows_is_met_each_time(random):
    class Silent:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None if self is None else True

    @jit
    def kernel(x, index):
        with Silent():
            return gathered(x, index)
        return scaled(x)

    x = random((16, 8))
    wrong = np.full((8, 1), 100, np.int32)
    for _ in range(4):
        np.testing.assert_array_equal(trnsim.run(kernel, x, wrong).outputs, 2 * x)


def test_a_capture_ends_at_an_error(random):
    context = trnsim.nki.jit(gathered.__wrapped__)
    x, good = random((16, 8)), np.arange(8, dtype=np.int32).reshape(8, 1)
    for index in (good, good + 12, good, good):
        if index is good:
            np.testing.assert_array_equal(trnsim.run(context, x, index).outputs, x[:8])
        else:
            with pytest.raises(IllegalInstruction):
                trnsim.run(context, x, index)


def test_a_run_inside_a_kernel_is_made_each_time(random):
    x = random((4, 8))

    @jit
    def kernel(given):
        trnsim.run(jit(scaled.__wrapped__), np.ones((4, 8), np.float32))
        return scaled(given)

    with collecting() as runs:
        called(kernel, x, times=4)
    assert len(runs) == 8


def test_a_profiler_of_the_users_own_goes_on(random):
    @jit
    def kernel(x, is_loud):
        if is_loud:
            print("loud")  # noqa: T201  as loggers do
        return scaled(x)

    def profiler(*_):
        return None

    before = sys.getprofile()
    sys.setprofile(profiler)
    try:
        called(kernel, random((4, 8)), False, times=4)
        found = sys.getprofile()
    finally:
        sys.setprofile(before)
    assert found is profiler


def test_a_changed_global_is_seen(monkeypatch, random):
    x = random((4, 8))
    called(scaled, x, times=3)
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    for _ in range(4):
        np.testing.assert_array_equal(trnsim.run(scaled, x).outputs, x * np.float32(5))
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    for _ in range(4):
        np.testing.assert_array_equal(trnsim.run(scaled, x).outputs, x * np.float32(2))


def test_a_kernel_that_changes_what_it_reads_is_called_each_time(random):
    calls = []

    @jit
    def kernel(x):
        calls.append(len(calls))
        return scaled(x)

    called(kernel, random((4, 8)), times=5)
    assert calls == list(range(5))


def test_a_kernel_that_prints_is_called_each_time(capsys, random):
    @jit
    def kernel(x):
        print("here")  # noqa: T201  as people do
        nl.device_print("x", nl.load(x))
        return scaled(x)

    called(kernel, random((4, 8)), times=4)
    assert capsys.readouterr().out.count("here") == 4


def test_a_device_print_is_printed_each_time(capsys, random):
    @jit
    def kernel(x):
        nl.device_print("row", nl.load(x))
        return scaled(x)

    called(kernel, random((4, 8)), times=4)
    assert capsys.readouterr().out.count("row") == 4


def test_a_kernel_whose_instructions_depend_on_values_is_called_each_time(random):
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
    for count in (1, 2, 3, 4, 2):
        result = trnsim.run(rows, x, np.array([[count]], np.int32)).outputs
        np.testing.assert_array_equal(result[:count], x[:count])
        assert not result[count:].any()


@jit
def gathered(x, index):
    """Rows of x by an index tensor."""
    out = nl.ndarray((index.shape[0], x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.zeros(out.shape, dtype=x.dtype)
    places = nl.load(index)
    source = x.ap([[x.shape[1], index.shape[0]], [1, x.shape[1]]], vector_offset=places)
    nisa.dma_copy(dst=tile, src=source)
    nisa.dma_copy(dst=out, src=tile)
    return out


def test_a_gather_follows_the_indices_of_each_call(issued, random):
    x = random((16, 8))
    called(gathered, x, np.arange(8, dtype=np.int32).reshape(8, 1))
    issued.clear()
    index = np.array([3, 3, 0, 15, 7, 1, 2, 9], np.int32).reshape(8, 1)
    np.testing.assert_array_equal(trnsim.run(gathered, x, index).outputs, x[index[:, 0]])
    assert not issued


def test_an_error_names_the_line_of_the_kernel(random):
    x, good = random((16, 8)), np.arange(8, dtype=np.int32).reshape(8, 1)
    kernel = jit(gathered.__wrapped__)
    called(kernel, x, good)
    wrong = good + 12
    with pytest.raises(IllegalInstruction, match="index 16") as first:
        trnsim.run(jit(gathered.__wrapped__), x, wrong)
    with pytest.raises(IllegalInstruction, match="index 16") as again:
        trnsim.run(kernel, x, wrong)
    assert str(again.value) == str(first.value)
    np.testing.assert_array_equal(trnsim.run(kernel, x, good).outputs, x[good[:, 0]])


def test_tensors_with_an_address_share_their_bytes(issued, random):
    @jit
    def rotated(x):
        """Two tiles at one address after each other, and two sums in one PSUM bank."""
        out = nl.ndarray((2, 128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
        for turn in range(2):
            tile = nl.ndarray((128, 64), dtype=nl.bfloat16, buffer=nl.sbuf, address=(0, 256))
            nisa.dma_copy(dst=tile, src=x[turn])
            total = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum, address=(0, 2048))
            nisa.nc_matmul(dst=total, stationary=tile, moving=tile)
            nisa.nc_matmul(dst=total, stationary=tile, moving=tile)
            result = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(dst=result, src=total)
            nisa.dma_copy(dst=out[turn, 0:64], src=result)
            nisa.dma_copy(dst=out[turn, 64:128], src=result)
        return out

    called(rotated, random((2, 128, 64)).astype(BF16))
    issued.clear()
    x = random((2, 128, 64)).astype(BF16)
    result = trnsim.run(rotated, x).outputs
    assert not issued
    assert result.tobytes() == trnsim.run(jit(rotated.__wrapped__), x).outputs.tobytes()


def test_random_numbers_start_where_each_call_starts(issued, random):
    @jit
    def drawn(x):
        out = nl.ndarray(x.shape, dtype=nl.uint32, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=nl.uint32, buffer=nl.sbuf)
        nisa.rng(dst=tile)
        nisa.dma_copy(dst=out, src=tile)
        return out

    x = random((4, 8))
    first, second = called(drawn, x)
    issued.clear()
    third = trnsim.run(drawn, x)
    assert not issued
    np.testing.assert_array_equal(third.outputs, first.outputs)
    np.testing.assert_array_equal(second.outputs, first.outputs)


def test_a_mask_kept_from_before_is_copied_where_it_is_set(issued, random):
    @jit
    def masked(x, mask):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.zeros(x.shape, dtype=x.dtype)
        nisa.tensor_copy_predicated(dst=tile, src=nl.load(x), predicate=nl.load(mask))
        nisa.dma_copy(dst=out, src=tile)
        return out

    x = random((4, 8))
    called(masked, x, np.ones((4, 8), np.uint8))
    issued.clear()
    mask = np.tri(4, 8, dtype=np.uint8)
    np.testing.assert_array_equal(trnsim.run(masked, x, mask).outputs, x * mask)
    assert not issued


def test_what_a_mask_leaves_unwritten_is_refused_in_every_call(random):
    @jit
    def masked(x, mask):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy_predicated(dst=tile, src=nl.load(x), predicate=nl.load(mask))
        nisa.dma_copy(dst=out, src=tile)
        return out

    x = random((4, 8))
    called(masked, x, np.ones((4, 8), np.uint8), times=3)
    with pytest.raises(EmulatorError, match="never written"):
        trnsim.run(masked, x, np.tri(4, 8, dtype=np.uint8))


def test_tuples_of_results_and_inputs_come_back(issued, random):
    @jit
    def both(x):
        return scaled(x), [x, scaled(scaled(x))], 3

    called(both, random((4, 8)))
    issued.clear()
    x = random((4, 8))
    double, (same, quadruple), number = trnsim.run(both, x).outputs
    assert not issued
    assert number == 3
    np.testing.assert_array_equal(double, 2 * x)
    np.testing.assert_array_equal(quadruple, 4 * x)
    np.testing.assert_array_equal(same, x)


def test_constants_of_the_program_keep_their_values(issued, random):
    @jit
    def transposed(x):
        out = nl.ndarray((8, 4), dtype=x.dtype, buffer=nl.shared_hbm)
        ones = nl.load(nl.shared_constant(np.ones((8, 4), np.float32)))
        nisa.dma_copy(dst=out, src=nl.add(ones, nl.load(x)))
        return out

    called(transposed, random((8, 4)))
    issued.clear()
    x = random((8, 4))
    np.testing.assert_array_equal(trnsim.run(transposed, x).outputs, x + 1)
    assert not issued


def test_arrays_are_let_go(random):
    x = random((128, 512))
    called(scaled, x)
    kept = weakref.ref(x)
    result = weakref.ref(trnsim.run(scaled, x).outputs.base)
    del x
    gc.collect()
    assert kept() is None
    assert result() is None


def test_two_threads_may_call_one_kernel(random):
    x = random((128, 512))
    called(scaled, x)
    wrong = []

    def work(factor):
        for _ in range(20):
            result = trnsim.run(scaled, factor * x).outputs
            wrong.extend([factor] if (result != 2 * factor * x).any() else [])

    threads = [threading.Thread(target=work, args=(np.float32(f),)) for f in (1, 2, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_debugger_sees_every_call(issued, random):
    x = random((4, 8))
    called(scaled, x, times=3)
    issued.clear()
    before = sys.gettrace()
    sys.settrace(lambda *_: None)
    try:
        trnsim.run(scaled, x)
    finally:
        sys.settrace(before)
    assert issued


def test_every_call_is_collected(random):
    x = random((4, 8))
    with collecting() as runs:
        called(scaled, x, times=4)
    assert len(runs) == 4


def test_without_values_a_kernel_is_called(issued, random):
    x = random((4, 8))
    called(scaled, x, times=3)
    issued.clear()
    trnsim.run(scaled, x, numerics=False)
    assert issued


def test_a_long_program_is_not_kept(issued, monkeypatch, random):
    monkeypatch.setattr(Capture, "MAX_INSTRUCTIONS", 2)
    kernel = jit(scaled.__wrapped__)
    called(kernel, random((4, 8)), times=3)
    assert len(issued) == 9


def test_two_cores_are_traced_each_time(issued, random):
    x = random((4, 8))
    called(scaled[2], x, times=3, races="warn")
    assert len(issued) == 18


def test_the_least_recent_program_goes_where_all_take_too_much_memory(issued, monkeypatch, random):
    kernels = [jit(scaled.__wrapped__) for _ in range(3)]
    x = random((128, 512))
    monkeypatch.setattr(budget, "nbytes", 4 * x.nbytes)  # two tiles each
    called(kernels[0], x)
    called(kernels[1], x)
    trnsim.run(kernels[0], x)
    called(kernels[2], x)
    issued.clear()
    trnsim.run(kernels[0], x)
    trnsim.run(kernels[2], x)
    assert not issued
    np.testing.assert_array_equal(trnsim.run(kernels[1], x).outputs, 2 * x)
    assert issued


def test_the_least_recent_call_is_forgotten(issued, monkeypatch, random):
    monkeypatch.setattr("trnsim.nki.repeats._MAX_CALLS", 2)
    kernel = jit(scaled.__wrapped__)
    for width in (8, 16, 24):
        called(kernel, random((4, width)))
    issued.clear()
    trnsim.run(kernel, random((4, 24)))
    assert not issued
    trnsim.run(kernel, random((4, 8)))
    assert issued
