"""nccom-test's table: figures of the fabric, started by the host, in AWS's form."""

import json

import pytest

from trnsim.calibrate.logs.timed import nccom
from trnsim.errors import BadInput
from trnsim.fabric.collective_time import time_on
from trnsim.fabric.fabric import fabric
from trnsim.fabric.floors import Floor
from trnsim.tools.nccom_test import (
    OPERATIONS,
    as_json,
    floor_text,
    size_bytes,
    size_times,
    sizes,
    table,
)

TRN1 = ("trn1.32xlarge", 1, 1)


def test_the_table_is_in_the_form_of_awss_page():
    """Heads, the default of 32 MB of uint8, and GB of 2**30: nccom-test.rst, first example."""
    (row,) = rows = size_times("allr", sizes("32MB", "", 2), "uint8", 2, TRN1)
    lines = table(rows).splitlines()
    assert lines[0].split() == [
        "size(B)", "count(elems)", "type", "time(us)", "algbw(GB/s)", "busbw(GB/s)",
    ]  # fmt: skip
    assert lines[1].split()[:3] == ["33554432", "33554432", "uint8"]
    rate = 33_554_432 / row.time.time_s / 2**30
    assert lines[1].split()[4:] == [f"{rate:.2f}", f"{rate:.2f}"]
    assert lines[2] == f"Avg bus bandwidth:      {rate:.4f}GB/s"
    assert len(lines) == 3


@pytest.mark.parametrize("operation", OPERATIONS)
def test_times_are_those_of_the_fabric_started_by_the_host(operation):
    kind = OPERATIONS[operation]
    for row in size_times(operation, [1024, 1 << 24], "fp32", 32, TRN1):
        on_fabric = time_on(fabric("trn1.32xlarge"), kind, row.nbytes, [range(32)], Floor.HOST)
        assert row.time.time_s == on_fabric.time_s
        assert row.time.floor is Floor.HOST


def test_the_floor_is_named():
    small = size_times("allr", [8, 64], "uint8", 2, TRN1)
    assert floor_text(small) == "each is started by the host"
    both = size_times("allr", sizes("1KB", "1GB", 1024), "uint8", 2, TRN1)
    assert floor_text(both) == (
        "each is started by the host, which transfers outlast from 1,073,741,824 bytes on"
    )
    results = json.loads(as_json(both))["results"]
    assert [row["floor"] for row in results] == [
        "started by the host",
        "started by the host",
        "started by the host (hidden)",
    ]
    assert all(row["p10(us)"] < row["time(us)"] < row["p90(us)"] for row in results)


def test_calibrate_reads_the_table():
    rows = size_times("allg", sizes("1KB", "1MB", 32), "fp32", 32, TRN1)
    read = nccom("log.txt", table(rows)).values
    assert [value.value for value in read] == pytest.approx(
        [row.time.time_s for row in rows], rel=1e-3
    )
    assert [value.more for value in read] == [f"--bytes {row.nbytes}" for row in rows]


def test_ranks_are_shared_by_instances():
    (row,) = size_times("allr", [8], "uint8", 64, ("trn1.32xlarge", 1, 2))
    assert row.time.placed_on == "2 x trn1.32xlarge"
    assert row.time.time_s == pytest.approx(520e-6, rel=0.05)
    assert "hierarchical" in table([row], has_algorithm=True)


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [("8", 8), ("1kb", 1024), ("64 KB", 65_536), ("2MiB", 2 << 20), ("1g", 1 << 30)],
)
def test_sizes_are_in_powers_of_1024(text, nbytes):
    assert size_bytes(text) == nbytes


def test_sizes_grow_by_a_factor():
    assert sizes("1KB", "64KB", 8) == [1024, 8192, 65_536]
    assert sizes("1KB", "", 8) == [1024]
    assert sizes("1KB", "63KB", 8) == [1024, 8192]


@pytest.mark.parametrize("text", ["", "0", "-8", "1.5KB", "8 elephants", "KB"])
def test_a_size_that_is_none_is_refused(text):
    with pytest.raises(BadInput, match=r"size '.*'; legal: a whole number above 0, with KB"):
        size_bytes(text)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("allsum", [8], "uint8", 2, TRN1), r"operation 'allsum'; legal: allr, allreduce"),
        (("allr", [8], "fp8", 2, TRN1), r"--datatype fp8; legal: uint8, int8"),
        (("allr", [8], "uint8", 1, TRN1), r"1 ranks on 1 instances; legal: from 2 on"),
        (("allr", [8], "uint8", 3, TRN1), r"3 ranks; legal: 1, 2, 4, 8, 16 and multiples of 32"),
        (("allr", [8], "uint8", 64, TRN1), r"64 ranks on trn1\.32xlarge"),
        (("allr", [8], "uint8", 33, ("trn1.32xlarge", 1, 2)), r"33 ranks on 2 instances; legal:"),
        (("allr", [8], "uint8", 4, ("inf2.48xlarge", 1, 2)), r"inf2\.48xlarge has no EFA"),
    ],
)
def test_what_cannot_be(arguments, reason):
    with pytest.raises(BadInput, match=reason):
        size_times(*arguments)


def test_sizes_that_shrink_are_refused():
    with pytest.raises(BadInput, match=r"sizes from 1MB to 1KB: the first is the larger"):
        sizes("1MB", "1KB", 2)
    with pytest.raises(BadInput, match=r"--stepfactor 1; legal: whole numbers from 2 on"):
        sizes("1KB", "1MB", 1)
