"""The example of scalars, and one loop of older and of newer NKI: the same values and times."""

import numpy as np
import pytest

import trnsim
from trnsim.errors import IllegalInstruction
from trnsim.nki import isa as nisa
from trnsim.nki import jit
from trnsim.nki import language as nl


@pytest.fixture
def gather(example):
    return example("ragged_gather").gather


@pytest.mark.parametrize("count", [0, 1, 6])
def test_as_many_rows_are_gathered_as_the_device_says(gather, random, count):
    table, indices = random((32, 16)), np.array([[3], [31], [0], [3], [7], [1]], np.int32)
    found = trnsim.run(gather, table, indices, np.array([[count]], np.int32)).outputs
    expected = np.where(np.arange(6)[:, None] < count, table[indices[:, 0]], 0)
    np.testing.assert_array_equal(found, expected)


def test_an_index_outside_the_table_is_refused(gather, random):
    indices = np.array([[32]], np.int32)
    with pytest.raises(IllegalInstruction, match=r"index 32 of table .*; legal: 0 to 31"):
        trnsim.run(gather, random((32, 16)), indices, np.array([[1]], np.int32))


def test_the_example_says_that_it_is_equal_to_numpy(example, capsys):
    example("ragged_gather").main()
    assert capsys.readouterr().out == "5 of 8 rows gathered: equal to numpy: True\n"


@jit
def added(a, b, count, how):
    """``a + b`` [M, H] in tiles of 128 rows, of which the device says how many."""
    H = a.shape[1]
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    first, bound = nl.zeros((1, 1), nl.int32), nl.load(count)

    def rows(tensor):
        return tensor.ap([[H, 128], [1, H]], scalar_offset=first, indirect_dim=0)

    def add_tile(_):
        left, right = (nl.ndarray((128, H), a.dtype) for _ in "ab")
        nisa.dma_copy(dst=left, src=rows(a))
        nisa.dma_copy(dst=right, src=rows(b))
        nisa.tensor_tensor(dst=left, data1=left, data2=right, op=nl.add)
        nisa.dma_copy(dst=rows(out), src=left)
        nisa.tensor_scalar(dst=first, data=first, op0=nl.add, operand0=128)

    if how == "scalar":
        nl.fori_loop(0, nisa.scalar_load(bound), add_tile)
        return out
    register = nisa.register_alloc()
    nisa.register_load(register, bound)
    if how == "register":
        nl.fori_loop(0, register, add_tile)
        return out
    for turn in nl.dynamic_range(0, register, 1):
        add_tile(turn)
    return out


def test_a_loop_of_0_3_and_its_twins_of_0_6_and_0_7_agree(random):
    a, b, count = random((256, 64)), random((256, 64)), np.array([[2]], np.int32)
    runs = {
        how: trnsim.run(added, a, b, count, how, nki=version)
        for how, version in (("range", "0.3"), ("register", "0.6"), ("scalar", "0.7"))
    }
    for run in runs.values():
        np.testing.assert_array_equal(run.outputs, a + b)
    assert runs["range"].total_time_s == runs["register"].total_time_s
    assert runs["scalar"].total_time_s <= runs["range"].total_time_s
