"""Dynamic indices: a register between the brackets. Static ones: tests/nki/test_tensor.py."""

from dataclasses import asdict, dataclass

import numpy as np
import pytest

import trnsim
from trnsim.errors import IllegalInstruction
from trnsim.isa import VirtualRegister
from trnsim.nki import isa as nisa
from trnsim.nki import jit
from trnsim.nki import language as nl


def window(x, start, pick):
    """What ``pick(x, register)`` holds when an instruction reads it."""

    @jit
    def kernel(x, start):
        register = nisa.register_alloc()
        nisa.register_load(register, nl.load(start))
        view = pick(x, register)
        assert view.is_indirect()
        out = nl.ndarray(view.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, view)
        return out

    return trnsim.run(kernel, x, np.full((1, 1), start, np.int32)).outputs


PICKS = {
    "rows": (lambda t, at: t[nl.ds(at, 3)], lambda a, at: a[at : at + 3]),
    "columns": (lambda t, at: t[:, nl.ds(at, 3)], lambda a, at: a[:, at : at + 3]),
    "one row": (lambda t, at: t[at], lambda a, at: a[at]),
    "one column": (lambda t, at: t[:, at], lambda a, at: a[:, at]),
    "part of a row": (lambda t, at: t[at, 1:4], lambda a, at: a[at, 1:4]),
    "with an integer": (lambda t, at: t[2, nl.ds(at, 3)], lambda a, at: a[2, at : at + 3]),
}


@pytest.mark.parametrize("name", PICKS)
@pytest.mark.parametrize("start", [0, 2])
def test_a_register_is_a_start_or_an_index(random, name, start):
    pick, exact = PICKS[name]
    x = random((5, 6))
    np.testing.assert_array_equal(window(x, start, pick), exact(x, start))


@pytest.mark.parametrize("start", [-1, 3, 100])
def test_a_register_beyond_the_tensor_is_refused_when_it_is_used(random, start):
    with pytest.raises(IllegalInstruction, match=rf"index {start} of .*legal: 0 to 2"):
        window(random((5, 6)), start, lambda t, at: t[nl.ds(at, 3)])


@pytest.mark.usefixtures("on_core")
def test_there_is_one_dynamic_index_a_tensor_and_none_on_partitions():
    register = VirtualRegister(0)
    tensor = nl.ndarray((4, 8), nl.float32, buffer=nl.hbm)
    with pytest.raises(IllegalInstruction, match="a second dynamic index"):
        _ = tensor[register, register]
    with pytest.raises(IllegalInstruction, match="a dynamic index on dimension 0"):
        _ = nl.ndarray((4, 8), nl.float32)[nl.ds(register, 2)]


def test_an_index_is_read_when_an_instruction_runs(random):
    """A view made before the loop follows its register."""

    @jit
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        register = nisa.register_alloc(0)
        source, target = x[:, nl.ds(register, 1)], out[:, nl.ds(register, 1)]
        for column in range(x.shape[1]):
            nisa.register_move(register, column)
            nisa.dma_copy(target, source)
        return out

    x = random((3, 5))
    np.testing.assert_array_equal(trnsim.run(kernel, x).outputs, x)


@pytest.mark.usefixtures("on_core")
def test_an_offset_is_a_register_or_a_tensor_of_integers():
    tensor = nl.ndarray((4, 8), nl.float32, buffer=nl.hbm)
    rows = [[8, 1], [1, 8]]
    with pytest.raises(IllegalInstruction, match="scalar_offset of int; legal: a tensor"):
        tensor.ap(rows, scalar_offset=3)
    with pytest.raises(IllegalInstruction, match="vector_offset of str; legal: a tensor"):
        tensor.vector_select(0, "x")
    real = nl.ndarray((1, 1), nl.float32)
    with pytest.raises(IllegalInstruction, match=r"scalar_offset is .*; legal: a tensor of integ"):
        tensor.ap(rows, scalar_offset=real)


@pytest.mark.usefixtures("on_core")
def test_a_scalar_offset_is_one_element_in_sbuf_and_a_vector_offset_picks_rows():
    tensor, rows = nl.ndarray((4, 8), nl.float32, buffer=nl.hbm), [[8, 1], [1, 8]]
    for wrong in (nl.ndarray((4, 1), nl.int32), nl.ndarray((1, 1), nl.int32, buffer=nl.hbm)):
        with pytest.raises(IllegalInstruction, match="legal: one element in SBUF, or a register"):
            tensor.select(0, wrong)
    with pytest.raises(IllegalInstruction, match="with indirect_dim=1; legal: 0"):
        tensor.ap(rows, vector_offset=nl.ndarray((1, 1), nl.int32), indirect_dim=1)


def picked(tile, columns, count, **options):
    """Columns of a tile in the order of an index [P, K], through tensor indirection."""

    @jit
    def kernel(x, columns):
        tile, index = nl.load(x), nl.load(columns)
        out = nl.ndarray((x.shape[0], count), x.dtype)
        nisa.tensor_copy(out, tile.indirect(index, **options), engine=nisa.engine.vector)
        result = nl.ndarray(out.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(result, out)
        return result

    return trnsim.run(kernel, tile, columns, target="trn3").outputs


def test_an_index_of_16_partitions_names_a_column_for_each_of_its_elements(random):
    x, columns = random((16, 8)), np.arange(16, dtype=np.int32)[:, None] % 8
    np.testing.assert_array_equal(picked(x, columns, 16), x[:, columns[:, 0]])
    np.testing.assert_array_equal(picked(x, columns, 3, num_elem=3), x[:, :3])


@pytest.mark.usefixtures("on_core")
def test_what_is_picked_is_a_flat_tile_by_an_index_of_its_partitions():
    tile, index = nl.ndarray((16, 8), nl.float32), nl.ndarray((16, 1), nl.uint32)
    for wrong in (tile.reshape((16, 2, 4)), nl.ndarray((16, 8), nl.float32, buffer=nl.hbm)):
        with pytest.raises(IllegalInstruction, match=r"legal: a tile \[P, F\] in SBUF or PSUM"):
            wrong.indirect(index)
    with pytest.raises(IllegalInstruction, match="at least one element"):
        tile.indirect(index, 0)
    with pytest.raises(IllegalInstruction, match="legal: whole numbers"):
        tile.indirect(index, 2.5)
    with pytest.raises(IllegalInstruction, match="legal: a tensor"):
        tile.indirect(3)
    with pytest.raises(IllegalInstruction, match="legal: an index of 16 partitions"):
        tile.indirect(nl.ndarray((32, 1), nl.uint32))


@pytest.mark.usefixtures("on_core")
def test_a_tensor_has_one_dynamic_index():
    tile, index = nl.ndarray((16, 8), nl.float32), nl.ndarray((16, 1), nl.uint32)
    register = VirtualRegister(0)
    for second in (
        lambda: tile.indirect(index, 4).indirect(index, 4),
        lambda: tile[:, nl.ds(register, 4)].select(1, register),
        lambda: tile[:, nl.ds(register, 4)].ap([[8, 16], [1, 4]], scalar_offset=register),
    ):
        with pytest.raises(IllegalInstruction, match="a second dynamic index"):
            second()
    moved = tile[:, nl.ds(register, 4)].ap([[8, 16], [1, 2]])
    assert moved.is_indirect()


def test_what_a_dataclass_holds_of_nki_stays_what_it_is(random):
    @dataclass
    class Config:
        rows: object
        where: object
        tile: object
        limits: object
        mode: object
        count: object

    @jit
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        count = nisa.register_alloc(2)
        whole = Config(nl.ds(0, 4), nl.sbuf, nl.load(x), nl.fp32, nisa.engine.vector, count)
        config = asdict(whole)
        assert config["where"] is nl.sbuf
        assert config["mode"] is nisa.engine.vector
        assert config["limits"].min == nl.fp32.min
        assert config["count"] is count
        nl.store(out[config["rows"], :], config["tile"][config["rows"], :])
        return out

    x = random((4, 8))
    np.testing.assert_array_equal(trnsim.run(kernel, x).outputs, x)


def gathered(x, indices, offset=0, mode=nisa.oob_mode.error):
    """Half rows of x from element `offset` on, by a vector of row numbers."""

    @jit
    def kernel(x, indices):
        columns = x.shape[1]
        tile = nl.zeros((indices.shape[0], columns // 2), x.dtype)
        pattern = [[columns, indices.shape[0]], [1, columns // 2]]
        view = x.ap(pattern, offset, vector_offset=nl.load(indices), indirect_dim=0)
        nisa.dma_copy(tile, view, oob_mode=mode)
        out = nl.ndarray(tile.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    return trnsim.run(kernel, x, np.asarray(indices, np.int32).reshape(-1, 1)).outputs


@pytest.mark.parametrize("offset", [0, 4, 5, 8, 12])
def test_a_vector_offset_is_judged_by_the_rows_that_it_picks(random, offset):
    x = random((6, 8))
    flat = x.reshape(-1)
    fitting = (x.size - offset - 4) // 8 + 1
    for rows in ([0, 2], [fitting - 1, 0], [0] * 3):
        expected = [flat[8 * row + offset : 8 * row + offset + 4] for row in rows]
        np.testing.assert_array_equal(gathered(x, rows, offset), expected)
    message = rf"index {fitting} of .*; legal: 0 to {fitting - 1}"
    with pytest.raises(IllegalInstruction, match=message):
        gathered(x, [0, fitting], offset)


def test_a_row_that_reaches_beyond_its_tensor_is_skipped_like_an_index_beyond_it(random):
    x = random((6, 8))
    found = gathered(x, [1, 5, 6, 0], offset=8, mode=nisa.oob_mode.skip)
    np.testing.assert_array_equal(found, [x[2, :4], np.zeros(4), np.zeros(4), x[1, :4]])


@pytest.mark.parametrize("index", [-1, 0, 2, 3, 4])
@pytest.mark.parametrize("form", ["slice", "ap"])
def test_a_scalar_offset_beyond_the_last_place_is_skipped_as_by_a_slice(form, index):
    @jit
    def kernel(a, offset, mode):
        register = nisa.register_alloc()
        nisa.register_load(register, offset)
        tile = nl.zeros((2, 8), nl.float32)
        if form == "slice":
            rows = a[nl.ds(register, 2)]
        else:
            rows = a.ap([[8, 2], [1, 8]], scalar_offset=register)
        nisa.dma_copy(tile, rows, oob_mode=mode)
        out = nl.ndarray((2, 8), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, tile)
        return out

    a, offset = np.arange(32, dtype=np.float32).reshape(4, 8), np.array([[index]], np.int32)
    found = trnsim.run(kernel, a, offset, nisa.oob_mode.skip).outputs
    legal = 0 <= index <= 2
    np.testing.assert_array_equal(found, a[index : index + 2] if legal else np.zeros((2, 8)))
    if not legal:
        with pytest.raises(IllegalInstruction, match=rf"index {index}\b"):
            trnsim.run(kernel, a, offset, nisa.oob_mode.error)
