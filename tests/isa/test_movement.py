"""Movements: rearrangements of bits, and which partitions and elements are written."""

import numpy as np

from trnsim.dtypes import FLOAT32
from trnsim.isa.movement import as_it_is, by_partition, transposed_rows, whole_rows


def test_rows_of_which_an_element_is_missing_are_not_whole():
    flags = np.ones((3, 2, 2), bool)
    flags[1, 0, 1] = False
    assert whole_rows(flags).tolist() == [True, False, True]


def test_a_flag_a_partition_stands_for_each_of_its_elements(bench):
    tile = bench().empty((3, 2, 2), FLOAT32)
    flags = by_partition(tile, np.array([True, False, True]))
    assert flags.shape == (3, 2, 2)
    assert flags.all(axis=(1, 2)).tolist() == [True, False, True]
    assert not flags[1].any()


def test_rearrangements_keep_every_element():
    array = np.arange(12).reshape(2, 3, 2)
    assert as_it_is(array) is array
    assert transposed_rows(array).tolist() == array.reshape(2, 6).T.tolist()
