"""Tests of the behaviours of AWS's simulator by version: both sides, and never on the chip."""

import warnings

import numpy as np
import pytest

import trnsim
from trnsim import nki
from trnsim.behaviours.chosen import pinned
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl
from trnsim.nki.notices import SimulatorOnlyWarning


def outputs(kernel, *arrays):
    """The outputs of a kernel by version on the simulator, and on the chip under 0.3."""
    by_version = {}
    for version in ("0.3", "0.4", "0.5", "0.6", "0.7"):
        with pinned(version, "a test"):
            by_version[version] = nki.simulate(nki.jit(kernel))(*(x.copy() for x in arrays))
    return by_version, trnsim.run(nki.jit(kernel), *arrays, nki="0.3", target="trn3").outputs


def loaded(x):
    tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, x)
    return tile


def stored(tile):
    out = nl.ndarray(tile.shape, tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


def test_casts_to_integers_truncate_before_0_6():
    def kernel(x):
        tile = nl.ndarray(x.shape, nl.int32, buffer=nl.sbuf)
        nisa.tensor_copy(tile, loaded(x))
        return stored(tile)

    found, chip = outputs(kernel, np.array([[1.7, -1.7, 2.5, 3e9]], np.float32))
    assert found["0.5"][0, :3].tolist() == [1, -1, 2]
    assert found["0.6"].tolist() == [[2, -2, 2, 2**31 - 1]]
    assert chip.tolist() == found["0.6"].tolist() == found["0.7"].tolist()


def test_low_precision_is_computed_as_float32_before_0_4(monkeypatch):
    def kernel(x):
        tile = nl.ndarray(x.shape, nl.bfloat16, buffer=nl.sbuf)
        nisa.tensor_copy(tile, loaded(x))
        wide = nl.ndarray(x.shape, nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(wide, tile)
        return stored(wide)

    x = np.array([[1 + 2**-12]], np.float32)
    found, chip = outputs(kernel, x)
    assert found["0.3"] == x
    assert found["0.4"] == found["0.7"] == chip == 1
    monkeypatch.setenv("NKI_PRECISE_FP", "1")
    assert outputs(kernel, x)[0]["0.3"] == 1


def test_find_index8_gives_0_and_the_first_of_duplicates_before_0_6():
    def kernel(data, vals):
        index = nl.ndarray((1, 8), nl.uint32, buffer=nl.sbuf)
        nisa.nc_find_index8(index, loaded(data), loaded(vals))
        return stored(index)

    data = np.array([[3, 5, 3, 1, 9, 9, 2, 4]], np.float32)
    vals = np.array([[3, 3, 7, 5, 9, 9, 9, 1]], np.float32)
    found, chip = outputs(kernel, data, vals)
    assert found["0.5"].tolist() == [[0, 0, 0, 1, 4, 4, 4, 3]]
    missing = 2**32 - 1
    assert found["0.6"].tolist() == [[0, 2, missing, 1, 4, 5, missing, 3]]
    assert chip.tolist() == found["0.7"].tolist() == found["0.6"].tolist()


def test_match_replace8_searches_from_the_first_value_before_0_6():
    def kernel(data, vals):
        dst = nl.ndarray(data.shape, data.dtype, buffer=nl.sbuf)
        index = nl.ndarray((1, 8), nl.uint32, buffer=nl.sbuf)
        nisa.nc_match_replace8(dst, loaded(data), loaded(vals), 0.0, dst_idx=index)
        return stored(index)

    data = np.array([[3, 3, 5, 6, 7, 8, 9, 1]], np.float32)
    vals = np.array([[3, 3, 5, 6, 7, 8, 9, 1]], np.float32)
    found, chip = outputs(kernel, data, vals)
    assert found["0.5"].tolist() == [[0, 1, 2, 3, 4, 5, 6, 7]]
    assert found["0.6"].tolist() == [[1, 0, 2, 3, 4, 5, 6, 7]]
    assert chip.tolist() == found["0.7"].tolist() == found["0.6"].tolist()


def test_each_matmul_into_another_part_of_psum_is_a_first_write_before_0_6():
    def kernel(x):
        ones = loaded(x)
        acc = nl.ndarray((4, 6), nl.float32, buffer=nl.psum)
        nisa.nc_matmul(acc[:, 0:4], ones, ones)
        nisa.nc_matmul(acc[:, 0:4], ones, ones)
        nisa.nc_matmul(acc[:, 2:6], ones, ones)
        copied = nl.ndarray((4, 6), nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(copied, acc)
        return stored(copied)

    found, chip = outputs(kernel, np.ones((4, 4), np.float32))
    assert found["0.5"][0].tolist() == [8, 8, 4, 4, 4, 4]
    assert found["0.6"][0].tolist() == [8, 8, 12, 12, 4, 4]
    assert chip.tolist() == found["0.7"].tolist() == found["0.6"].tolist()


def test_dst_overwrites_a_reduce_res_that_is_part_of_it_before_0_6():
    def kernel(x):
        dst = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
        nisa.activation(
            dst,
            nl.copy,
            loaded(x),
            reduce_op=nl.add,
            reduce_res=dst[:, 0:1],
            reduce_cmd=nisa.reduce_cmd.reset_reduce,
        )
        return stored(dst)

    found, chip = outputs(kernel, np.array([[1, 2, 3, 4]], np.float32))
    assert found["0.5"].tolist() == [[1, 2, 3, 4]]
    assert found["0.6"].tolist() == [[10, 2, 3, 4]]
    assert chip.tolist() == found["0.7"].tolist() == found["0.6"].tolist()


@pytest.mark.parametrize(("version", "is_warned"), [("0.4", False), ("0.5", True), ("0.7", True)])
def test_accumulation_onto_unwritten_psum_warns_from_0_5_on(version, is_warned):
    @nki.jit
    def kernel(x):
        acc = nl.ndarray((4, 4), nl.float32, buffer=nl.psum)
        nisa.nc_matmul(acc, loaded(x), loaded(x), accumulate=True)
        copied = nl.ndarray((4, 4), nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(copied, acc)
        return stored(copied)

    with warnings.catch_warnings(record=True) as caught, pinned(version, "a test"):
        warnings.simplefilter("always")
        assert np.isnan(nki.simulate(kernel)(np.ones((4, 4), np.float32))).all()
    texts = [str(w.message) for w in caught if w.category is SimulatorOnlyWarning]
    assert any("accumulate=True onto" in text for text in texts) == is_warned
