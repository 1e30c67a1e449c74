"""Values of operations, against sums of NumPy and moves by hand."""

import json
from unittest.mock import patch

import numpy as np
import pytest

from trnsim.errors import BadInput, InternalError
from trnsim.tools.nccom import values
from trnsim.tools.nccom.operations import ITEM_BYTES
from trnsim.tools.nccom.options import OperationOptions
from trnsim.tools.nccom.times import fabric_of, planned_operation
from trnsim.tools.nccom.values import MOST_ELEMENTS, check

TRN2 = fabric_of("trn2.48xlarge", 2, 1, 64)
FEW = fabric_of("trn2.48xlarge", 2, 1, 4)


def plan(name, where=FEW, how="random", **stated):
    stated = {"minbytes": "1KB", "maxbytes": "1KB", **stated}
    return planned_operation(OperationOptions(operation=name, check=how, **stated), where)


MOVES = ("allg", "alltoall", "sendrecv", "permute")


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("allr", dtype) for dtype in ITEM_BYTES]
    + [("redsct", dtype) for dtype in ("fp8", "int16", "fp32")]
    + [(name, dtype) for name in MOVES for dtype in ("fp8e4", "uint32")],
)
def test_operations_are_right(name, dtype):
    for how in ("random", "all_ones"):
        checked = check(plan(name, how=how, datatype=dtype), 1024, seed=3)
        assert checked.elements == 1024 // ITEM_BYTES[dtype]
        is_rounded = name in ("allr", "redsct") and "f" in dtype and how == "random"
        assert checked.error == 0 or is_rounded


def test_a_sum_of_halves_is_rounded_and_within_its_tolerance():
    checked = check(plan("allr", TRN2, datatype="bf16"), 1024, seed=1)
    assert 0 < checked.error < 1


def test_a_long_message_is_computed_in_part():
    checked = check(plan("allr", TRN2, minbytes="1GB", maxbytes="1GB"), 1 << 30, seed=1)
    assert checked.elements == MOST_ELEMENTS
    assert check(plan("allg", TRN2, minbytes="8", maxbytes="8"), 8, seed=1).elements == 64


def test_inputs_are_those_of_their_seed():
    operation = plan("allr", datatype="fp32")
    drawn = [values._inputs(operation, 1024, (0, 1, 2, 3), seed) for seed in (1, 1, 2)]
    assert np.array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2])
    assert not np.array_equal(drawn[0][0], drawn[0][1])  # ranks differ
    ones = values._inputs(plan("allr", how="all_ones"), 1024, (0, 1), 1)
    assert all((each == 1).all() for each in ones)


def test_integers_are_small_enough_for_an_exact_sum():
    inputs = values._inputs(plan("allr", TRN2, datatype="uint8"), 1024, tuple(range(64)), 1)
    total = np.sum([each.astype(np.int64) for each in inputs], axis=0)
    assert 0 < total.max() <= 255


def test_variable_operations_put_chunks_where_they_belong(tmp_path):
    path = tmp_path / "counts.json"
    entries = [
        {"send_counts": [1, 2], "send_displs": [3, 0], "recv_displs": [5, 0]},
        {"send_counts": [3, 4], "send_displs": [1, 2], "recv_displs": [0, 9]},
    ]
    path.write_text(json.dumps({"metadata": entries}))
    where = fabric_of("trn2.48xlarge", 2, 1, 2)
    operation = plan("alltoallv", where, variable_size_op_metadata=path, datatype="fp32")
    assert check(operation, 1024, seed=1).elements == 13
    inputs = [np.arange(20.0), 100 + np.arange(20.0)]
    outputs, golden = values._results(operation, 1024, (0, 1), inputs)
    assert outputs[0].tolist()[:6] == [101, 102, 103, 0, 0, 3]
    assert outputs[1].tolist()[:2] == [0, 1]
    assert outputs[1].tolist()[9:13] == [102, 103, 104, 105]
    assert np.array_equal(outputs, golden)


def test_chunks_far_apart_are_not_computed(tmp_path):
    path = tmp_path / "counts.json"
    entry = {"send_counts": [1, 1], "send_displs": [0, values.MOST_EXTENT]}
    path.write_text(json.dumps({"metadata": [entry]}))
    where = fabric_of("trn2.48xlarge", 2, 1, 2)
    stated = {"minbytes": "32M", "maxbytes": "32M", "variable_size_op_metadata": path}
    with pytest.raises(BadInput, match=r"chunks up to element 262,145; legal here: up to 262,144"):
        check(plan("alltoallv", where, **stated), 32 << 20, seed=1)


def test_a_sum_without_a_value_is_refused():
    four = fabric_of("trn1.32xlarge", 1, 8, 256)
    with pytest.raises(BadInput, match=r"--check of int8 over 256 ranks.* up to 127 ranks"):
        check(plan("allr", four, datatype="int8"), 1024, seed=1)
    with pytest.raises(BadInput, match=r"--check of uint8 over 256 ranks.* up to 255 ranks"):
        check(plan("redsct", four, "all_ones"), 1024, seed=1)
    assert check(plan("allg", four, datatype="int8"), 1024, seed=1).error == 0


@pytest.mark.parametrize("name", ["allr", "allg"])
def test_a_wrong_value_is_told(name):
    results = values._results

    def wrong(*arguments):
        outputs, golden = results(*arguments)
        return [*outputs[:-1], np.full_like(outputs[-1], 99)], golden

    with (
        patch.object(values, "_results", wrong),
        pytest.raises(InternalError, match=r"--check of all_\w+ of 1,024 bytes: an output is"),
    ):
        check(plan(name, datatype="fp32"), 1024, seed=1)
