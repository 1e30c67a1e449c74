"""Times of operations: the fabric's, started by the host."""

import json

import pytest
from site_cases import write_site

from trnsim.arch import TARGETS
from trnsim.errors import BadInput
from trnsim.fabric.collective_time import time_on
from trnsim.fabric.fabric import fabric
from trnsim.fabric.floors import Floor
from trnsim.tools.nccom.operations import OPERATIONS
from trnsim.tools.nccom.options import OperationOptions
from trnsim.tools.nccom.times import fabric_of, planned_operation

TRN1 = fabric("trn1.32xlarge")


def plan(name="allr", where=TRN1, target=None, **stated):
    stated = {"minbytes": "1KB", "maxbytes": "16MB", "stepfactor": "16K", **stated}
    return planned_operation(OperationOptions(operation=name, **stated), where, target)


@pytest.mark.parametrize(
    "name",
    [row.name for row in OPERATIONS.values() if not row.has_counts and row.name != "permute"],
)
def test_times_are_those_of_the_fabric_started_by_the_host(name):
    kind = OPERATIONS[name].kind
    operation = plan(name, datatype="fp32")
    assert operation.sizes == (1024, 16 << 20)
    for nbytes in operation.sizes:
        row = operation.time(nbytes)
        on_fabric = time_on(TRN1, kind, nbytes, [range(32)], Floor.HOST)
        assert row.time.time_s == pytest.approx(on_fabric.time_s, rel=1e-12)
        assert row.time.interval == on_fabric.interval
        assert row.time.floor is Floor.HOST
        assert row.bus_gib_per_s == pytest.approx(
            OPERATIONS[name].bus_factor(32) * nbytes / on_fabric.time_s / 2**30
        )


def test_groups_work_at_once_and_bus_bandwidth_is_of_one():
    operation = plan(data_parallel_dimension=8)
    row = operation.time(16 << 20)
    groups = [range(first, 32, 4) for first in range(4)]
    assert row.time.time_s == time_on(TRN1, "all_reduce", 16 << 20, groups, Floor.HOST).time_s
    assert row.ranks == 8
    assert row.bus_gib_per_s == pytest.approx(2 * 7 / 8 * row.algorithm_gib_per_s)


def test_a_permute_takes_the_time_of_its_longest_ring(tmp_path):
    path = tmp_path / "pairs.json"

    def time_s(pairs):
        path.write_text(json.dumps({"src_target_pairs": [pairs]}))
        return plan("permute", custom_src_target_pairs=path, minbytes="16MB").time(16 << 20).time

    near, own = time_s([[0, 1], [1, 0]]), time_s([[3, 3]])
    assert near.time_s == time_on(TRN1, "permute", 16 << 20, [(0, 1)], Floor.HOST).time_s
    assert own.time_s <= near.time_s
    assert near.algorithm == "direct"


def test_counts_decide_the_bytes_that_are_sent(tmp_path):
    path = tmp_path / "counts.json"

    def time_s(counts):
        entry = {"send_counts": counts, "send_displs": [0, counts[0]]}
        path.write_text(json.dumps({"metadata": [entry]}))
        where = fabric_of("trn1.32xlarge", 1, 1, 2)
        stated = {"variable_size_op_metadata": path, "minbytes": "32M", "maxbytes": "32M"}
        return plan("alltoallv", where, stepfactor="", **stated).time(32 << 20).time.time_s

    half = 16 << 20
    even = time_on(
        fabric_of("trn1.32xlarge", 1, 1, 2), "all_to_all", 32 << 20, [(0, 1)], Floor.HOST
    )
    assert time_s([half, half]) == pytest.approx(even.time_s, rel=1e-12)
    assert time_s([8, 8]) < time_s([half, 8]) == time_s([8, half])
    assert time_s([0, 0]) == time_s([8, 8])  # the start alone


def test_measurements_of_the_user_correct_a_time_and_its_bandwidths(monkeypatch, tmp_path):
    plain = plan(minbytes="8").time(8)
    assert (plain.factor, plain.measurements_text, plain.interval) == (1, "", plain.time.interval)
    site = write_site(tmp_path / "site.json", families=("exchanges",))
    monkeypatch.setenv("TRNSIM_SITE", str(site))
    row = plan(minbytes="8").time(8)
    assert row.measurements_text == "yours, 2026-11-20, 14 rows"
    assert row.time_s == pytest.approx(1.5 * plain.time_s)  # the factor of the file
    assert row.bus_gib_per_s == pytest.approx(plain.bus_gib_per_s / 1.5)
    assert row.interval.p50 == pytest.approx(1.5 * plain.interval.p50)


def test_algorithms_have_the_names_of_the_tool():
    two = fabric_of("trn1.32xlarge", 1, 2, 64)
    assert plan(where=two).time(1024).algorithm == "hier"
    pairs = fabric_of("trn2.48xlarge", 2, 1, 64)
    shown = {plan(where=pairs).time(nbytes).algorithm for nbytes in (4, 1 << 20, 16 << 20, 1 << 30)}
    assert shown <= {"mesh", "rdh", "kangaring", "ring"}


def test_ranks_are_shared_by_instances():
    two = fabric_of("trn1.32xlarge", 1, 2, 64)
    row = plan(where=two).time(1024)
    assert row.time.placed_on == "2 x trn1.32xlarge"
    assert {row.nodes for row in row.evidence.rows} == {2}


@pytest.mark.parametrize(
    ("instance", "lnc", "nodes", "ranks", "reason"),
    [
        ("trn1.32xlarge", 1, 1, 1, r"1 rank on 1 instance; legal: from 2 on"),
        ("trn1.32xlarge", 1, 1, 3, r"3 ranks; legal: 1, 2, 4, 8, 16 and multiples of 32"),
        ("trn1.32xlarge", 1, 1, 64, r"64 ranks on trn1\.32xlarge"),
        ("trn1.32xlarge", 1, 2, 33, r"33 ranks on 2 instances; legal:"),
        ("trn2.48xlarge", 2, 1, 128, r"128 ranks on trn2\.48xlarge, which has 64 logical cores"),
        ("inf2.48xlarge", 1, 2, 4, r"2 x inf2\.48xlarge, which has no EFA; legal: --nnodes 1"),
    ],
)
def test_ranks_that_instances_do_not_have(instance, lnc, nodes, ranks, reason):
    with pytest.raises(BadInput, match=reason):
        fabric_of(instance, lnc, nodes, ranks)


def test_sizes_of_an_all_to_all_are_whole_elements_of_each_rank():
    assert plan("alltoall", datatype="fp32", minbytes="128").sizes[0] == 128
    with pytest.raises(BadInput, match=r"alltoall of 132 bytes over 32 ranks; legal: multiples of"):
        plan("alltoall", datatype="fp32", minbytes="132")
    series = plan("alltoall", datatype="fp32", minbytes="128", maxbytes="32M", stepfactor="").sizes
    assert len(series) == 11
    split = plan(coalesced_cc_size_ratio="[1,2]", minbytes="3", maxbytes="1MB", stepfactor="")
    assert all(nbytes % 3 == 0 for nbytes in split.sizes)


def test_every_option_is_checked_at_every_size():
    with pytest.raises(BadInput, match=r"ratio \[1,2\] of 1,024 bytes"):
        plan(coalesced_cc_size_ratio="[1,2]")
    with pytest.raises(BadInput, match=r"--sb2sb of all_reduce on trn1"):
        plan(sb2sb=True, target=TARGETS["trn1"])
    with pytest.raises(BadInput, match=r"--check twos"):
        plan(check="twos")
    with pytest.raises(BadInput, match=r"operation 'sum'"):
        plan("sum")
