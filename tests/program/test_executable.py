"""Executables: captured programs on other bytes."""

import threading
from itertools import pairwise

import numpy as np
import pytest

from trnsim.errors import BadInput, IllegalInstruction
from trnsim.isa import DmaCopy, NcMatmul, TensorCopy, TensorScalar
from trnsim.memory import AccessPattern, Memory, Tile, VectorIndex
from trnsim.program.capture import Capture
from trnsim.program.executable import Executable


@pytest.fixture
def chain(bench, random):
    """x -> 2x -> 4x -> out, through tiles of their own; the bench, x and out."""
    on = bench()
    on.context.capture = Capture()
    x, out = on.tile(random((128, 64)), memory=Memory.HBM), on.empty((128, 64), memory=Memory.HBM)
    tiles = [on.empty((128, 64)) for _ in range(4)]
    on.issue(DmaCopy(tiles[0], x))
    for src, dst in pairwise(tiles[:3]):
        on.issue(TensorScalar(dst, src, "multiply", 2.0))
    on.issue(TensorCopy(tiles[3], tiles[2]))
    on.issue(DmaCopy(out, tiles[3]))
    return on, x, out


def made(on, given, results):
    return Executable.of(
        [on.program],
        [on.context.capture],
        [tile.storage.serial for tile in given],
        [tile.storage.serial for tile in results],
    )


def as_bytes(array):
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def as_floats(result, *shape):
    return result.data.view(np.float32).reshape(shape)


def test_results_follow_the_inputs_of_each_call(chain, random):
    on, x, out = chain
    runs = made(on, [x], [out])
    results = []
    for _ in range(2):
        given = random((128, 64))
        (result,) = runs.execute([as_bytes(given)])
        np.testing.assert_array_equal(as_floats(result, 128, 64), 4 * given)
        results.append(result.data)
    assert not np.shares_memory(*results)


def test_tensors_that_do_not_live_together_share_buffers(chain):
    on, x, out = chain
    runs = made(on, [x], [out])
    on_chip = [s for s in on.context.capture.storages.values() if s.memory is Memory.SBUF]
    assert len(on_chip) == 4
    assert len({storage.data.ctypes.data for storage in on_chip}) == 2
    assert runs.execute([as_bytes(np.ones((128, 64), np.float32))]) is not None


def test_the_callers_bytes_are_let_go(chain):
    on, x, out = chain
    runs = made(on, [x], [out])
    runs.execute([as_bytes(np.ones((128, 64), np.float32))])
    storages = on.context.capture.storages
    assert storages[x.storage.serial].data is storages[out.storage.serial].data is None


def test_what_was_there_before_and_is_no_input_is_a_constant(chain):
    on, x, out = chain
    runs = made(on, [], [out])
    (result,) = runs.execute([])
    np.testing.assert_array_equal(as_floats(result, 128, 64), 4 * x.array)


def test_a_constant_that_is_written_cannot_be_one(bench, random):
    on = bench()
    on.context.capture = Capture()
    x, tile = on.tile(random((4, 8)), memory=Memory.HBM), on.empty((4, 8))
    on.issue(DmaCopy(tile, x))
    on.issue(DmaCopy(x, tile))
    with pytest.raises(BadInput, match="writes to a constant"):
        made(on, [], [])
    assert made(on, [x], []).execute([as_bytes(x.array)]) == []


def test_a_result_that_nothing_wrote_cannot_be_had(chain):
    on, x, _ = chain
    for given, results in (([x], [on.empty((4, 8), memory=Memory.HBM)]), ([], [x])):
        with pytest.raises(BadInput, match="returns a tensor that no instruction has written"):
            made(on, given, results)


def test_a_kernel_that_goes_on_after_an_error_has_none(chain):
    on, x, out = chain
    on.context.capture.is_broken = True
    with pytest.raises(BadInput, match="goes on after an error"):
        made(on, [x], [out])


def test_an_accumulation_starts_anew(bench, random):
    on = bench()
    on.context.capture = Capture()
    left, total = on.tile(random((128, 32))), on.empty((32, 32), memory=Memory.PSUM)
    out = on.empty((32, 32), memory=Memory.HBM)
    result = on.empty((32, 32))
    for _ in range(2):
        on.issue(NcMatmul(total, left, left))
    on.issue(TensorCopy(result, total))
    on.issue(DmaCopy(out, result))
    runs = made(on, [left], [out])
    given = random((128, 32))
    for _ in range(2):
        (found,) = runs.execute([as_bytes(given)])
        exact = 2 * (given.T @ given)
        np.testing.assert_allclose(as_floats(found, 32, 32), exact, rtol=1e-4)


def test_an_error_of_the_values_has_the_line_that_issued_it(bench, random):
    on = bench()
    on.context.capture = Capture()
    rows, dst = on.tile(random((16, 8)), memory=Memory.HBM), on.empty((4, 8))
    index = on.tile(np.array([[3], [1], [2], [5]], np.int32))
    on.issue(TensorCopy(dst, dst_like := on.tile(random((4, 8)))))
    src = Tile(
        rows.storage, rows.dtype, AccessPattern((4, 8), (32, 4), 0), VectorIndex(index, 32, 16)
    )
    on.issue(DmaCopy(dst, src))
    runs = made(on, [rows, index, dst_like], [])
    wrong = np.array([[3], [1], [16], [5]], np.int32)
    given = [as_bytes(rows.array), as_bytes(wrong), as_bytes(dst_like.array)]
    with pytest.raises(IllegalInstruction, match="index 16") as caught:
        runs.execute(given)
    assert caught.value.line == on.program.line(1)
    given[1] = as_bytes(index.array)
    assert runs.execute(given) == []


def test_threads_take_turns(chain):
    on, x, out = chain
    runs = made(on, [x], [out])
    wrong = []

    def work(factor):
        given = np.full((128, 64), factor, np.float32)
        for _ in range(20):
            (found,) = runs.execute([as_bytes(given)])
            wrong.extend([factor] if (found.data.view(np.float32) != 4 * factor).any() else [])

    threads = [threading.Thread(target=work, args=(float(f),)) for f in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
