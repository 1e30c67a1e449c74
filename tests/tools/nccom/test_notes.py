"""What is told of options that an estimate accepts."""

import pytest

from trnsim.tools.nccom import notes
from trnsim.tools.nccom.notes import Iterations, iterations
from trnsim.tools.nccom.options import OperationOptions


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((20, 5, None, None), Iterations(20, 25, 0)),
        ((15, 5, 10, None), Iterations(150, 200, 10)),  # nccom-test.rst, first example
        ((15, 5, 10, 5), Iterations(150, 300, 15)),  # and the second
        ((15, 5, None, 5), Iterations(15, 120, 6)),
        ((1, 0, 1, 0), Iterations(1, 1, 1)),
    ],
)
def test_operations_are_counted_as_the_page_counts_them(counts, expected):
    assert iterations(*counts) == expected


def test_iterations_are_told_where_programs_are_counted():
    defaults = {"neff_iters": None, "neff_warmup_iters": None}
    assert notes.iterations_line(Iterations(20, 25, 0), defaults) == ""
    stated = defaults | {"neff_iters": 10}
    assert notes.iterations_line(Iterations(150, 200, 10), stated) == (
        "150 of 200 operations would count, in 10 runs of a program; the estimate is the same for "
        "each"
    )


def test_options_without_an_effect_are_named_on_one_line():
    defaults = dict.fromkeys(notes.IGNORED)
    assert notes.ignored_line(defaults, defaults) == ""
    stated = {"unique_buff": True, "cc_dim": 0, "ops_per_iter": 2}
    assert notes.ignored_line(defaults | stated, defaults) == (
        "without effect on an estimate: --unique-buff (no time of unique buffers is published), "
        "--cc-dim (the order of joined tensors takes no time here), "
        "ops_per_iter (each operation of a stream has the same time)"
    )


def test_percentiles_are_told_to_be_the_average():
    assert notes.stats_line(("avg",)) == ""
    assert notes.stats_line(("avg", "p50", "p99")).startswith("--stats p50 p99: an estimate has on")


def test_pairs_and_streams_are_told(tmp_path):
    stated = [OperationOptions(operation=name) for name in ("sendrecv", "permute", "allr")]
    assert notes.pairs_line(stated[2:]) == ""
    assert notes.pairs_line(stated).startswith("sendrecv, permute: each rank sends to the next")
    named = OperationOptions(operation="permute", custom_src_target_pairs=tmp_path)
    assert notes.pairs_line([named]) == ""
    assert notes.streams_line(1) == ""
    assert notes.streams_line(2) == "2 streams: each has the time that it has alone"
