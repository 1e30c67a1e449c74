"""Published rows beside a question."""

import json
from importlib import resources

import pytest

from trnsim.fabric.fabric import fabric
from trnsim.fabric.floors import Floor
from trnsim.fabric.published import evidence, published_rows

TRN1, TRN2 = fabric("trn1.32xlarge"), fabric("trn2.48xlarge", lnc=2)


def test_every_row_has_an_id_of_its_own_and_a_floor():
    rows = published_rows()
    assert len(rows) == len({row.id for row in rows}) == 33
    stored = json.loads((resources.files("trnsim.fabric") / "published.json").read_text())
    assert [row.id for row in rows] == [fields["id"] for fields in stored]
    assert {row.floor for row in rows} == set(Floor)


def test_rows_of_the_same_generation_and_reach_count():
    first = evidence(TRN1, "all_reduce", 2, 1024, Floor.HOST)
    assert {(row.is_first, row.nodes > 1, row.floor) for row in first.rows} == {
        (True, False, Floor.HOST)
    }
    two = evidence(fabric("trn1.32xlarge", nodes=2), "all_reduce", 64, 8, Floor.HOST)
    assert {row.nodes for row in two.rows} == {2}
    later = evidence(TRN2, "all_gather", 64, 1024, Floor.PROGRAM)
    assert {row.id.rpartition("-")[0] for row in later.rows} == {"nccom-allg32-new"}


@pytest.mark.parametrize(
    ("kind", "ranks", "nbytes", "nearest"),
    [
        ("all_reduce", 2, 1024, "nccom-allr2-1024"),
        ("all_reduce", 2, 2**40, "nccom-allr2-1073741824"),
        ("all_gather", 32, 1, "nccom-allg32-old-1024"),
        ("all_gather", 4, 1024, "nccom-allg32-old-1024"),  # its kind, before its ranks
        ("permute", 2, 0, "nccom-allr2-1024"),  # no row of its kind
    ],
)
def test_the_nearest_row(kind, ranks, nbytes, nearest):
    assert evidence(TRN1, kind, ranks, nbytes, Floor.HOST).nearest.id == nearest


def test_a_question_without_rows_names_the_nearest_other():
    carried = evidence(fabric("trn2.48xlarge", nodes=2, lnc=2), "all_reduce", 128, 8, Floor.HOST)
    assert carried.rows == ()
    assert carried.nearest.id == "nccom-allr64-2node-8"
    assert str(carried) == (
        "no published row of chips after the first generation, several instances; the nearest "
        "other is all_reduce, 64 ranks, 8 bytes (estimated -3 %)"
    )
    assert str(evidence(TRN1, "all_gather", 32, 1024, Floor.HOST)) == (
        "nearest of 15 published rows of the first generation, one instance: all_gather, 32 ranks, "
        "1,024 bytes (estimated +0 %)"
    )
