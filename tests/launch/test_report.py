import json

import pytest
from rank_figures_made import figures
from schema_checks import assert_both_ways

from trnsim.document.text import text as text_of
from trnsim.document.values import plain, with_schema
from trnsim.errors import BadInput
from trnsim.fabric.fabric import fabric
from trnsim.launch import report
from trnsim.launch.job import LaunchJob
from trnsim.launch.launcher import JobEnd
from trnsim.launch.world import world


def world_text(found):
    return text_of(report.world_document(found))


FABRIC = fabric("trn2.48xlarge", nodes=2, lnc=2, ranks_per_node=2)
RANKS = (0, 1, 2, 3)
FOUND = world(
    FABRIC,
    [figures(rank, [("allreduce", 1 << 20, RANKS, 2)]) for rank in RANKS[:3]],
    ["rank 3 was ended by SIGKILL"],
    1,
)


def test_the_text_has_ranks_collectives_and_links():
    text = world_text(FOUND)
    for part in (
        "4 ranks on 2 x trn2.48xlarge, 2 on each\n",
        "skew of their kernels: 0 ns\n",
        "\na step of rank 0, the slowest: ",
        "\n2     1         0     0     1 ms",
        "\nallreduce   2      1 MiB       1 of 4  hierarchical  inside a program  ",
        "\ninstance 0, EFA 0, out",
        "\nlost: rank 3 was ended by SIGKILL\nall ranks were started again: 1\n",
        "without figures: ranks 3",
    ):
        assert part in text, part
    assert world_text(world(FABRIC, [])).endswith("there is nothing to time")


def test_ranks_that_did_nothing_have_no_slowest_step():
    text = world_text(world(FABRIC, [figures(rank, [], compute_s=0.0) for rank in RANKS]))
    assert "\nno rank computed or exchanged anything on its device: all times are zero\n" in text
    assert "the slowest" not in text


def test_json_and_page_say_the_same(tmp_path):
    report.write_report(FOUND, tmp_path)
    found = json.loads((tmp_path / "world.json").read_text())
    (row,) = found["collectives"]
    assert (row["algorithm"], row["groups"], row["calls"]) == ("hierarchical", [[0, 1, 2, 3]], 2)
    assert row["time_s"] == FOUND.collectives[0].time_s
    assert row["floor"] == "inside a program"
    assert (found["absent"], found["restarts"], len(found["links"])) == ([3], 1, len(FOUND.links))
    assert [one["place"] for one in found["ranks"]] == [[0, 0, 0], [0, 0, 1], [1, 0, 0]]
    page = (tmp_path / "world.html").read_text()
    assert "<h1>4 ranks on 2 x trn2.48xlarge, 2 on each</h1>" in page
    assert "lost: rank 3 was ended by SIGKILL" in page
    assert "<script" not in page


def test_figures_are_those_that_ranks_wrote(tmp_path):
    job = LaunchJob(("x",), FABRIC, "trn2", tmp_path)
    job.figures.mkdir()
    for rank in (0, 2):
        (job.figures / f"rank-{rank}.json").write_text(json.dumps(figures(rank, [])))
    found = report.job_world(job, JobEnd(lost=["rank 1"], restarts=2))
    assert (found.absent, found.lost, found.restarts) == ([1, 3], ("rank 1",), 2)


def test_the_error_of_a_report_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    assert isinstance(report.write_or_error(FOUND, tmp_path / "file"), BadInput)
    assert report.write_or_error(FOUND, tmp_path) is None
    assert (tmp_path / "world.txt").read_text() == world_text(FOUND) + "\n"


@pytest.mark.parametrize("factor", [0.5, 0.0])
def test_injected_links_are_named(factor):
    slow = fabric("trn2.48xlarge", lnc=2, ranks_per_node=2)
    object.__setattr__(slow, "factors", {"chip 0 to chip 1": factor})
    text = world_text(world(slow, [figures(0, [])]))
    how = "at 0.5 of its bandwidth" if factor else "dead"
    assert f"injected: chip 0 to chip 1 {how}\n" in text


def test_the_figures_are_those_of_the_schema(tmp_path):
    report.write_report(FOUND, tmp_path)
    slow = fabric("trn2.48xlarge", lnc=2, ranks_per_node=2)
    object.__setattr__(slow, "factors", {"chip 0 to chip 1": 0.5})
    values = with_schema(report.as_dict(world(slow, [figures(0, [])])), "launch/1")
    unknown = report.as_dict(world(slow, [figures(0, [("scan", 1 << 20, (0,), 1)])]))
    stored = json.loads((tmp_path / "world.json").read_text())
    nobody = with_schema(report.as_dict(world(slow, [])), "launch/1")
    every = [stored, plain(values), plain(with_schema(unknown, "launch/1")), plain(nobody)]
    assert_both_ways(every, "launch/1")
