"""Counts and places of variable operations."""

import json

import pytest

from trnsim.errors import BadInput
from trnsim.tools.nccom.metadata import metadata_of
from trnsim.tools.nccom.operations import operation
from trnsim.tools.nccom.options import OperationOptions
from trnsim.tools.nccom.times import fabric_of

# The two examples of nccom-test.rst.
GATHER = {
    "send_counts": [256],
    "send_displs": [0],
    "recv_counts": [256, 256, 256, 256],
    "recv_displs": [0, 256, 512, 768],
}
EXCHANGE = {"send_counts": [512, 1024], "send_displs": [0, 512], "recv_counts": []}


@pytest.fixture
def counted(tmp_path):
    def metadata(name, entries, ranks=2, instance="trn2.48xlarge", groups=None):
        path = tmp_path / "counts.json"
        path.write_text(json.dumps({"metadata": entries}))
        fabric = fabric_of(instance, 2 if "trn2" in instance else 1, 1, ranks)
        stated = OperationOptions(operation=name, variable_size_op_metadata=path)
        return metadata_of(stated, operation(name), fabric, groups or (tuple(range(ranks)),))

    return metadata


def test_one_entry_is_of_every_rank(counted):
    counts = counted("alltoallv", [EXCHANGE])
    sent = [(t.source, t.target, t.nbytes) for t in counts.transfers([(0, 1)], 4)]
    assert sent == [(0, 1, 4096.0), (1, 0, 2048.0)]
    assert [counts.receive_offsets((0, 1), own) for own in (0, 1)] == [(0, 512), (0, 1024)]
    assert counts.extent((0, 1)) == 2048  # what rank 1 receives


def test_a_gather_sends_its_chunk_to_all(counted):
    counts = counted("all_gatherv", [GATHER], ranks=4)
    sent = list(counts.transfers([(0, 1, 2, 3)], 2))
    assert len(sent) == 12
    assert {transfer.nbytes for transfer in sent} == {512.0}
    assert counts.receive_offsets((0, 1, 2, 3), 3) == (0, 256, 512, 768)
    counts.check_fits([(0, 1, 2, 3)], 2048, 2)  # as in the example, to the byte
    with pytest.raises(BadInput, match=r"chunk of rank 0 ends at element 1,024; legal: up to 1,02"):
        counts.check_fits([(0, 1, 2, 3)], 2046, 2)


def test_an_entry_a_rank(counted):
    entries = [
        {"send_counts": [1, 2], "send_displs": [0, 1], "recv_counts": [1, 3]},
        {"send_counts": [3, 4], "send_displs": [0, 3], "recv_counts": [2, 4]},
    ]
    counts = counted("alltoallv", entries)
    assert [counts.send_count(0, 1), counts.send_count(1, 0)] == [2, 3]
    entries[1]["recv_counts"] = [5, 4]
    with pytest.raises(BadInput, match=r"rank 1 expects 5 elements of rank 0, which sends 2"):
        counted("alltoallv", entries)


@pytest.mark.parametrize(
    ("name", "entries", "ranks", "reason"),
    [
        ("alltoallv", [EXCHANGE] * 3, 2, r"3 entries; legal: 1 for all ranks, or 2, one a rank"),
        ("alltoallv", [], 2, r"0 items"),
        ("alltoallv", [EXCHANGE], 4, r"2 items; legal: 4, as the group needs"),
        ("alltoallv", [{**EXCHANGE, "send_displs": [0]}], 2, r"send_displs.* 1 items; legal: 2"),
        ("alltoallv", [{**EXCHANGE, "recv_displs": [0]}], 2, r"recv_displs.* 1 items; legal: 2"),
        ("alltoallv", [{**EXCHANGE, "send_counts": [-1, 2]}], 2, r"is -1; legal: a whole number"),
        ("alltoallv", [{"send_counts": [1, 2]}], 2, r"send_displs is missing"),
        ("all_gatherv", [EXCHANGE], 2, r"send_counts.* 2 items; legal: 1"),
        ("all_gatherv", [{**GATHER, "recv_counts": [256, 256, 256, 1]}], 4, r"expects 1 elements"),
        ("all_gatherv", [GATHER], 8, r"all_gatherv of 8 ranks on 2 devices; legal: groups on one"),
        ("all_reduce", [GATHER], 2, r"--variable-size-op-metadata of all_reduce; legal: of alltoa"),
    ],
)
def test_counts_that_do_not_fit_are_refused(counted, name, entries, ranks, reason):
    with pytest.raises(BadInput, match=reason):
        counted(name, entries, ranks)


def test_a_variable_gather_needs_a_trainium_device(counted):
    with pytest.raises(BadInput, match=r"all_gatherv of 2 ranks on inf2\.48xlarge; legal: groups"):
        counted("all_gatherv", [GATHER], 2, "inf2.48xlarge")


def test_a_variable_operation_without_counts_is_refused():
    fabric = fabric_of("trn2.48xlarge", 2, 1, 2)
    with pytest.raises(BadInput, match=r"alltoallv without --variable-size-op-metadata; legal: a"):
        metadata_of(OperationOptions(operation="alltoallv"), operation("alltoallv"), fabric, ())
    others = OperationOptions(operation="allr")
    assert metadata_of(others, operation("allr"), fabric, ()) is None
