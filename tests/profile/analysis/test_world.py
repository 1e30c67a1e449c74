"""The summary of a world: by rank, by collective, as text and as JSON."""

import json
from dataclasses import replace

import pytest
from made_world import X, world
from schema_checks import assert_both_ways

from trnsim.document.values import json_text, with_schema
from trnsim.profile.measures.collectives import times_of


@pytest.fixture(scope="module")
def ran():
    return world(ranks=4, groups=[[0, 1], [2, 3]], late=(3,), computes=4)


def test_ranks_have_their_times(ran):
    for run, one in zip(ran.runs, ran.summary.ranks, strict=True):
        times = times_of(run.timelines)
        assert one.total_s == run.total_time_s
        assert (one.collectives_s, one.exposed_s) == (times.total_s, times.exposed_s)
        assert one.hidden_s + one.exposed_s == pytest.approx(one.collectives_s)
    assert [one.waited_s for one in ran.summary.ranks] == list(ran.skew_s)
    assert ran.summary.total_s == ran.total_time_s


def test_equal_collectives_of_a_line_are_one_row_with_a_figure_a_rank(ran):
    (one,) = ran.summary.collectives
    assert one.opcode == "all_reduce"
    assert one.groups == ((0, 1), (2, 3))
    assert (one.nbytes, one.dtype, one.count) == (X.nbytes, "float32", [1] * 4)
    assert one.exposed_s == pytest.approx([rank.exposed_s for rank in ran.summary.ranks])
    assert one.waited_s == pytest.approx([rank.waited_s for rank in ran.summary.ranks])
    assert one.waited_s.index(max(one.waited_s)) == 2
    assert one.line.file.endswith("made_world.py")


def test_both_cores_of_a_rank_are_not_counted_twice():
    (one,) = world(lnc=2).summary.collectives
    assert one.count == [1, 1]
    assert one.hidden_s[0] + one.exposed_s[0] == pytest.approx(one.time_s)


def test_text_says_who_waited_and_what_was_exposed(ran):
    text = ran.summary.text().splitlines()
    assert text[0].startswith("beside: 4 ranks of LNC=1 on ")
    assert text[1].endswith("by rank 2, most of all")
    assert text[2].startswith("  exposed  ")
    assert " in collectives (inside a program) on rank " in text[2]
    assert text[3].startswith("           1 x all_reduce of 256 KiB (")
    assert "made_world.py:" in text[4]
    assert text[5].startswith("  link     ")


def test_json_has_every_rank_collective_and_link(ran):
    stored = json.loads(
        json_text(with_schema(ran.summary.as_dict() | {"lanes": ran.lanes()}, "run-ranks/1"))
    )
    assert [row["floor"] for row in stored["collectives"]] == ["inside a program"]
    nowhere = world(ranks=1).summary
    without = replace(nowhere.collectives[0], line=None)
    alone = with_schema(replace(nowhere, collectives=(without,)).as_dict(), "run-ranks/1")
    assert_both_ways([stored, json.loads(json_text(alone))], "run-ranks/1")
    assert stored["total_time_s"] == ran.total_time_s
    for rank, own in zip(stored["ranks"], stored["lanes"], strict=True):
        for name in ("exposed_s", "collectives_s"):
            stretches = own["exchanges_s" if name == "collectives_s" else name]
            spent_s = sum(end_s - start_s for start_s, end_s in stretches)
            assert spent_s == pytest.approx(rank[name], abs=1e-3 * stored["total_time_s"])
    slowest = max(ran.runs, key=lambda run: run.total_time_s).summary
    assert stored["p10_s"] == slowest.total_time_p10_s
    assert stored["p90_s"] == slowest.total_time_p90_s
    assert [one["exposed_s"] for one in stored["ranks"]] == stored["collectives"][0]["exposed_s"]
    assert stored["collectives"][0]["groups"] == [[0, 1], [2, 3]]
    assert {one["name"] for one in stored["links"]} == {one.name for one in ran.links}


def test_a_world_of_one_rank_exchanges_nothing():
    alone = world(ranks=1).summary
    assert alone.collectives[0].algorithm == ""
    assert alone.ranks[0].collectives_s == 0
    assert "1 x all_reduce of 256 KiB: 0 ns exposed" in alone.text()
