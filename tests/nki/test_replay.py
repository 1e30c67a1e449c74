"""Recorded kernels: their instructions on other inputs, and what a replay refuses."""

import gc
import threading
import weakref

import ml_dtypes
import numpy as np
import pytest

import trnsim
from trnsim.errors import BadInput, EmulatorError, IllegalInstruction
from trnsim.nki import isa as nisa
from trnsim.nki import jit
from trnsim.nki import language as nl
from trnsim.program import CoreContext
from trnsim.runs import collecting

BF16 = ml_dtypes.bfloat16
X = np.arange(32, dtype=np.float32).reshape(4, 8)


@pytest.fixture
def issued(monkeypatch):
    """The instructions that were issued, as the test goes on: none in a replay."""
    seen = []
    issue = CoreContext.issue
    monkeypatch.setattr(
        CoreContext, "issue", lambda core, given: (seen.append(given), issue(core, given))[1]
    )
    return seen


@jit
def scaled(x, factor=2.0):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=nl.multiply(nl.load(x), factor))
    return out


@jit
def gathered(x, index):
    """Rows of x by an index tensor."""
    out = nl.ndarray((index.shape[0], x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.zeros(out.shape, dtype=x.dtype)
    source = x.ap([[x.shape[1], index.shape[0]], [1, x.shape[1]]], vector_offset=nl.load(index))
    nisa.dma_copy(dst=tile, src=source)
    nisa.dma_copy(dst=out, src=tile)
    return out


def test_a_replay_gives_what_a_run_gives_without_calling_the_kernel(issued):
    replay = trnsim.record(scaled, X, target="trn3")
    assert len(issued) == len(replay.run.program) == 3
    run, traced = replay(X + 1), trnsim.run(scaled, X + 1, target="trn3")
    assert len(issued) == 6
    np.testing.assert_array_equal(run.outputs, traced.outputs)
    assert run.total_time_s == traced.total_time_s
    assert run.target.name == "trn3"
    assert run.title == "scaled"
    assert replay.run.outputs is None


def _read_only(array):
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "change",
    [
        np.copy,
        np.asfortranarray,
        lambda x: np.stack([x, x], axis=-1)[..., 0],
        lambda x: np.concatenate([x, x])[::2],
        lambda x: _read_only(x.copy()),
        lambda x: np.frombuffer(b"?" + x.tobytes(), np.float32, offset=1).reshape(x.shape),
    ],
)
def test_any_layout_of_an_argument_gives_what_a_run_gives(change):
    replay = trnsim.record(scaled, X)
    given = change(X - 7)
    expected = trnsim.run(scaled, given).outputs
    for run in (replay(given), replay(x=given)):
        np.testing.assert_array_equal(run.outputs, expected)
        assert type(run.outputs) is type(expected) is np.ndarray
        assert run.outputs.flags.writeable
        assert not np.shares_memory(run.outputs, given)
    with pytest.raises(BadInput, match="argument `x` is"):
        replay(given[:2])
    with pytest.raises(BadInput, match="argument `x` is"):
        replay(given.astype(np.float16))
    with pytest.raises(BadInput, match="argument `factor` is"):
        replay(given, 3.0)


def test_results_are_new_arrays():
    replay = trnsim.record(scaled, X)
    first, second = replay(X).outputs, replay(3 * X).outputs
    np.testing.assert_array_equal(first, 2 * X)
    np.testing.assert_array_equal(second, 6 * X)


def test_inputs_are_written_in_place():
    @jit
    def tripled(x):
        tile = nl.load(x)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=3.0)
        nisa.dma_copy(dst=x, src=tile)
        return x

    recorded = X.copy()
    replay = trnsim.record(tripled, recorded)
    np.testing.assert_array_equal(recorded, 3 * X)
    given = X.copy()
    result = replay(given).outputs
    strided = np.zeros((4, 16), np.float32)
    strided[:, ::2] = X
    replay(strided[:, ::2])
    np.testing.assert_array_equal(given, 3 * X)
    np.testing.assert_array_equal(result, 3 * X)
    np.testing.assert_array_equal(strided[:, ::2], 3 * X)
    assert not strided[:, 1::2].any()


def test_torch_tensors_give_torch_tensors():
    torch = pytest.importorskip("torch")
    x = torch.arange(32.0).reshape(4, 8).to(torch.bfloat16)
    result = trnsim.record(scaled, x)(x + 1).outputs
    assert result.dtype is torch.bfloat16
    assert torch.equal(result, 2 * (x + 1))


def test_tuples_of_results_inputs_and_constants_come_back():
    @jit
    def several(x):
        ones = nl.load(nl.shared_constant(np.ones((4, 8), np.float32)))
        out = nl.ndarray((4, 8), dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=nl.add(ones, nl.load(x)))
        return scaled(x), [x, scaled(out)], {"number": 3, "none": None, "again": out}

    double, (same, more), named = trnsim.record(several, X)(5 * X).outputs
    assert (named["number"], named["none"]) == (3, None)
    np.testing.assert_array_equal(named["again"], 5 * X + 1)
    np.testing.assert_array_equal(double, 10 * X)
    np.testing.assert_array_equal(same, 5 * X)
    np.testing.assert_array_equal(more, 2 * (5 * X + 1))


def test_tensors_with_an_address_share_their_bytes(random):
    @jit
    def rotated(x):
        """Two tiles at one address after each other, and two sums in one PSUM bank."""
        out = nl.ndarray((2, 64, 64), dtype=nl.float32, buffer=nl.shared_hbm)
        for turn in range(2):
            tile = nl.ndarray((128, 64), dtype=nl.bfloat16, buffer=nl.sbuf, address=(0, 256))
            nisa.dma_copy(dst=tile, src=x[turn])
            total = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum, address=(0, 2048))
            for _ in range(2):
                nisa.nc_matmul(dst=total, stationary=tile, moving=tile)
            nisa.dma_copy(dst=out[turn], src=nl.copy(total))
        return out

    replay = trnsim.record(rotated, random((2, 128, 64)).astype(BF16))
    for seed in (1, 2):
        x = random((2, 128, 64), seed=seed).astype(BF16)
        assert replay(x).outputs.tobytes() == trnsim.run(rotated, x).outputs.tobytes()


def test_random_numbers_start_where_each_call_starts():
    @jit
    def drawn(x):
        out = nl.ndarray(x.shape, dtype=nl.uint32, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=nl.uint32, buffer=nl.sbuf)
        nisa.rng(dst=tile)
        nisa.dma_copy(dst=out, src=tile)
        return out

    replay = trnsim.record(drawn, X)
    for _ in range(2):
        np.testing.assert_array_equal(replay(X).outputs, trnsim.run(drawn, X).outputs)


def test_values_still_make_errors_at_the_kernels_line(random):
    x, good = random((16, 8)), np.arange(8, dtype=np.int32).reshape(8, 1)
    replay = trnsim.record(gathered, x, good)
    other = np.array([3, 3, 0, 15, 7, 1, 2, 9], np.int32).reshape(8, 1)
    np.testing.assert_array_equal(replay(x, other).outputs, x[other[:, 0]])
    with pytest.raises(IllegalInstruction, match="index 16") as first:
        trnsim.run(gathered, x, good + 12)
    with pytest.raises(IllegalInstruction, match="index 16") as again:
        replay(x, good + 12)
    assert str(again.value) == str(first.value)
    np.testing.assert_array_equal(replay(x, good).outputs, x[good[:, 0]])


class Settings(nl.NKIObject):
    weights: object
    factor: float = 1.0


@jit
def nested(settings, pair, table=None):
    """Takes arguments of every kind."""
    return scaled(settings.weights, settings.factor * pair[1] * (table or {"by": 1.0})["by"])


@pytest.mark.parametrize(
    ("args", "kwargs", "path", "given"),
    [
        ((X[:, :4],), {}, "x", "a numpy array float32 [4, 4]; recorded: a numpy array float32 [4"),
        ((X.astype(BF16),), {}, "x", "a numpy array bfloat16 [4, 8]; recorded"),
        ((X, 3.0), {}, "factor", "3.0; recorded: 0.0"),
        ((X, -0.0), {}, "factor", "-0.0; recorded: 0.0"),
        ((X, 0), {}, "factor", "0; recorded: 0.0"),
        ((X, False), {}, "factor", "False; recorded: 0.0"),
        ((X, X), {}, "factor", "a numpy array float32 [4, 8]; recorded: 0.0"),
        ((X,), {}, "factor", "missing"),
        ((3.0, 0.0), {}, "x", "3.0; recorded: a numpy array"),
    ],
)
def test_another_argument_is_refused(args, kwargs, path, given):
    replay = trnsim.record(scaled, X, 0.0)
    with pytest.raises(BadInput) as caught:
        replay(*args, **kwargs)
    assert f"replay of scaled: argument `{path}` is {given}" in caught.value.reason
    assert "trnsim.run" in caught.value.fix


@pytest.mark.parametrize(
    "dtype", [np.dtype(np.int32), np.dtype(np.uint32), np.dtype(np.float32).newbyteorder()]
)
def test_another_dtype_of_the_same_size_is_no_plain_argument(dtype):
    replay = trnsim.record(scaled, X)
    with pytest.raises(BadInput, match="argument `x` is a numpy array"):
        replay(np.ones(X.shape, dtype))


def test_an_input_that_is_written_must_be_writeable():
    @jit
    def negated(x):
        tile = nl.load(x)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=-1.0)
        nisa.dma_copy(dst=x, src=tile)
        return x

    def outcome(call):
        given = _read_only(X.copy())
        try:
            returned = call(given).outputs
        except (EmulatorError, ValueError) as error:
            returned = type(error)
        np.testing.assert_array_equal(given, X)
        return returned

    ran = outcome(lambda given: trnsim.run(negated, given))
    replayed = outcome(trnsim.record(negated, X.copy()))
    np.testing.assert_array_equal(replayed, ran)


@pytest.mark.parametrize(
    ("settings", "pair", "table", "path"),
    [
        (Settings(weights=X, factor=3.0), (X, 2.0), {"by": 1.0}, "settings.factor"),
        (Settings(weights=X[:3], factor=2.0), (X, 2.0), {"by": 1.0}, "settings.weights"),
        (Settings(weights=X, factor=2.0), [X, 2.0], {"by": 1.0}, "pair"),
        (Settings(weights=X, factor=2.0), (X, 2.0, 1), {"by": 1.0}, "pair"),
        (Settings(weights=X, factor=2.0), (X, 2), {"by": 1.0}, "pair[1]"),
        (Settings(weights=X, factor=2.0), (X, 2.0), {"by": 1.5}, "table['by']"),
        (Settings(weights=X, factor=2.0), (X, 2.0), {"by": 1.0, "b": 1}, "table"),
        (Settings(weights=X, factor=2.0), (X, 2.0), None, "table"),
    ],
)
def test_what_is_inside_of_an_argument_counts(settings, pair, table, path):
    same = Settings(weights=X + 1, factor=2.0), (X, 2.0), {"by": 1.0}
    replay = trnsim.record(nested, *same)
    np.testing.assert_array_equal(replay(*same).outputs, 4 * (X + 1))
    with pytest.raises(BadInput) as caught:
        replay(settings, pair, table)
    assert f"argument `{path}` is" in caught.value.reason


@pytest.mark.parametrize(
    ("recorded", "given"), [(0.0, -0.0), (-0.0, 0.0), (1.0, 2.0)], ids=["minus", "plus", "two"]
)
def test_the_sign_of_a_zero_of_numpy_counts(recorded, given):
    replay = trnsim.record(scaled, X, np.float32(recorded))
    with pytest.raises(BadInput, match=r"argument `factor` is .*recorded"):
        replay(X, np.float32(given))
    assert np.signbit(replay(X, np.float32(recorded)).outputs[1, 1]) == np.signbit(recorded)


def test_a_nan_of_numpy_is_that_nan():
    assert np.isnan(trnsim.record(scaled, X, np.float32("nan"))(X, np.float32("nan")).outputs).all()


def test_the_kernels_python_is_the_callers_promise():
    factor = [2.0]

    @jit
    def kernel(x):
        return scaled(x, factor[0])

    replay = trnsim.record(kernel, X)
    factor[0] = 5.0
    np.testing.assert_array_equal(replay(X).outputs, 2 * X)
    np.testing.assert_array_equal(trnsim.run(kernel, X).outputs, 5 * X)


def test_what_is_no_kernel_is_refused():
    with pytest.raises(BadInput, match=r"record\(kernel_kwargs=\[1\]\); legal: a dictionary"):
        trnsim.record(scaled, X, kernel_kwargs=[1])
    with pytest.raises(BadInput, match=r"record was given 3; legal: an @nki\.jit kernel"):
        trnsim.record(3)


@pytest.mark.parametrize("what", ["prints from the device", "runs another kernel", "returns <obj"])
def test_what_instructions_do_not_tell_is_refused(what):
    @jit
    def kernel(x):
        if "prints" in what:
            nl.device_print("x", nl.load(x))
        if "runs" in what:
            trnsim.run(scaled, X)
        return object() if "returns" in what else scaled(x)

    with pytest.raises(BadInput, match=f"cannot be recorded where it {what}"):
        trnsim.record(kernel, X)


def test_an_error_that_the_kernel_handles_is_refused(random):
    @jit
    def kernel(x, index):
        try:
            return gathered(x, index)
        except EmulatorError:
            return scaled(x)

    wrong = np.full((8, 1), 100, np.int32)
    with pytest.raises(EmulatorError) as caught:
        trnsim.record(kernel, random((16, 8)), wrong)
    assert "kernel handled this error" in caught.value.__notes__[0]


def test_capacity_and_kernel_kwargs_are_those_of_run():
    @jit
    def kernel(x, target):
        return scaled(x, target)

    replay = trnsim.record(kernel, X, capacity="warn", kernel_kwargs={"target": 3.0})
    np.testing.assert_array_equal(replay(X, target=3.0).outputs, 3 * X)


def test_a_replay_is_collected_and_the_recording_is_not():
    with collecting() as runs:
        replay = trnsim.record(scaled, X)
        replay(X)
        replay(X)
    assert len(runs) == 2


@pytest.mark.slow
def test_arrays_are_let_go():
    x = X.copy()
    replay = trnsim.record(scaled, x)
    result = weakref.ref(replay(x).outputs.base)
    kept = weakref.ref(x)
    del x
    gc.collect()
    assert kept() is result() is None


def test_threads_may_share_a_replay():
    replay, wrong = trnsim.record(scaled, X), []

    def work(factor):
        for _ in range(20):
            wrong.extend([factor] if (replay(factor * X).outputs != 2 * factor * X).any() else [])

    threads = [threading.Thread(target=work, args=(np.float32(f),)) for f in (1, 2, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.filterwarnings("ignore::trnsim.user_warnings.SpillWarning")
def test_a_kernel_that_spills_is_executed_as_it_was_issued(random):
    @jit
    def kernel(x):
        tiles = [nl.load(x) for _ in range(15)]  # 15 x 16 KiB of 224 KiB a partition
        for tile in tiles:
            nisa.tensor_tensor(tile, tile, tiles[-1], nl.add)
        for tile in tiles:
            nl.store(x, tile)
        return x

    x = random((128, 4096))
    replay = trnsim.record(kernel, x.copy())
    assert len(replay.run.program) > len(replay.run.program.issued)
    found = replay(x.copy())
    assert found.overfull == replay.run.overfull != ()
    np.testing.assert_array_equal(found.outputs, 2 * x)
