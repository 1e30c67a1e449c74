"""`trnsim plan collective`."""

import json
import re

import pytest
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.errors import EmulatorError
from trnsim.fabric.floors import Floor
from trnsim.place.links import Spread, exchange


def run(*arguments):
    result = CliRunner().invoke(app, ["plan", "collective", *map(str, arguments)])
    if isinstance(result.exception, EmulatorError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_one_platform_is_one_object():
    found = json.loads(
        run("all_reduce", "--on", "trn2.48xlarge", "--ranks", 64, "--bytes", 1 << 20, "--json")
    )
    told = exchange("trn2.48xlarge", 2, "all_reduce", 1 << 20, Spread(64))
    for name, time_s in (("time_s", told.floors.time_s(Floor.HOST)), ("inside_s", told.time_s)):
        assert found[name]["p10"] < found[name]["p50"] < found[name]["p90"]
        assert found[name]["p50"] == pytest.approx(time_s, rel=0.05)
    assert found["host_start_s"] == pytest.approx(told.floors.start_s)
    assert found["floor"] == "started by the host"
    assert found["latency_s"] + found["bytes_s"] == pytest.approx(told.time_s)
    assert (found["algorithm"], found["level"], found["lnc"]) == ("mesh", "instance", 2)


def test_several_are_a_list():
    found = json.loads(
        run("all_gather", "--on", "trn1,g5.48xlarge", "--ranks", 8, "--bytes", 1000, "--json")
    )
    assert [row["lnc"] for row in found] == [1, 0]


def test_bus_bandwidth_is_that_of_nccl_tests():
    found = json.loads(run("all_reduce", "--on", "p5", "--ranks", 8, "--bytes", 1 << 30, "--json"))
    bus = 2 * 7 / 8 * (1 << 30) / (found["latency_s"] + found["bytes_s"])
    assert found["bus_bytes_per_s"] == pytest.approx(bus)


@pytest.mark.parametrize(
    ("kind", "factor"),
    [("all_reduce", 1.75), ("all_gather", 0.875), ("reduce_scatter", 0.875), ("gather", 0.875),
     ("scatter", 0.875), ("all_to_all", 0.875), ("broadcast", 1), ("reduce", 1), ("send", 1),
     ("permute", 1), ("barrier", 0)],
)  # fmt: skip
def test_bus_bandwidth_of_each_collective_is_that_of_nccl_tests(kind, factor):
    found = json.loads(run(kind, "--on", "p5", "--ranks", 8, "--bytes", 1 << 30, "--json"))
    time_s = found["latency_s"] + found["bytes_s"]
    assert found["bus_bytes_per_s"] == pytest.approx(factor * (1 << 30) / time_s)


@pytest.mark.parametrize(
    ("kind", "operation"),
    [("permute", "permute"), ("all_reduce", "allr"), ("all_to_all", "alltoall")],
)
def test_bus_bandwidth_is_that_of_the_same_question_to_nccom_test(kind, operation):
    size = 1 << 26
    words = ["nccom-test", operation, "-r", "32", "-b", str(size), "-e", str(size)]
    told = CliRunner(env={"TRNSIM_INSTANCE": "trn1.32xlarge"}).invoke(app, words)
    mean = re.search(r"Avg bus bandwidth:\s+([\d.]+)GB/s", told.output)
    found = json.loads(run(kind, "--on", "trn1", "--bytes", size, "--json"))
    assert found["bus_bytes_per_s"] / 2**30 == pytest.approx(float(mean[1]), rel=1e-3)


def test_what_has_no_algorithm_and_no_message_has_dashes():
    line = run("barrier", "--on", "trn2", "--bytes", 1 << 30).splitlines()[3]
    assert re.split(r"\s{2,}", line)[-3:] == ["-", "instance", "-"]


@pytest.mark.parametrize(
    ("ranks", "instances", "nbytes", "published_us"),
    [(64, 2, 8, 520), (64, 2, 1 << 16, 1315), (64, 2, 1 << 24, 2138), (32, 1, 1024, 151)],
)
def test_published_starts_are_inside(ranks, instances, nbytes, published_us):
    kind = "all_reduce" if instances == 2 else "all_gather"
    found = json.loads(
        run(kind, "--on", "trn1", "--ranks", ranks, "--bytes", nbytes, "--json",
            "--instances", instances)
    )  # fmt: skip
    assert found["time_s"]["p10"] < published_us * 1e-6 < found["time_s"]["p90"]
    assert found["floor"] == "started by the host"


def test_each_platform_says_which_floor_it_paid():
    text = run("all_reduce", "--on", "trn1,trn2,p5en", "--ranks", 2, "--bytes", 1 << 22)
    floors = {line.split()[0]: line for line in text.splitlines() if line.startswith(("trn", "p5"))}
    assert floors["trn1"].endswith("started by the host (hidden)")
    assert floors["trn2"].endswith("started by the host")
    assert floors["p5en"].endswith("-             inside a program")
    assert "extrapolated" not in text
    assert "extrapolated: no start of more than 64 ranks is published" in run(
        "all_reduce", "--on", "trn2", "--instances", 2, "--bytes", 8
    )
    assert "host" not in run("all_reduce", "--on", "p5en", "--ranks", 2, "--bytes", 8)


def test_without_ranks_all_of_the_instances_take_part():
    assert json.loads(run("permute", "--on", "trn2", "--bytes", 8, "--json"))["ranks"] == 64
    two = run("permute", "--on", "trn2", "--instances", 2, "--bytes", 8, "--json")
    assert json.loads(two)["ranks"] == 128
    strided = run("permute", "--on", "trn2", "--stride", 8, "--bytes", 8, "--json")
    assert json.loads(strided)["ranks"] == 8


def test_the_published_gibibyte_of_two_ranks():
    found = json.loads(
        run("all_reduce", "--on", "trn1", "--ranks", 2, "--bytes", 1 << 30, "--json")
    )
    assert found["time_s"]["p10"] < 18_930e-6 < found["time_s"]["p90"]
    assert found["time_s"]["p50"] == pytest.approx(18_930e-6, rel=0.05)


def test_a_table_fits_a_screen():
    lines = run("all_reduce", "--on", "trn2,p5en", "--ranks", 64, "--bytes", 1 << 20).splitlines()
    assert lines[0] == "all_reduce of 1,048,576 bytes"
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["reduce_all", "--bytes", 1], r"collective 'reduce_all'"),
        (
            ["all_reduce", "--bytes", 1, "--ranks", 65, "--instances", 1],
            r"65 ranks, 1 apart, on 1 x trn2\.48xlarge, which has 64 ranks with LNC=2",
        ),
        (["all_reduce", "--bytes", 1, "--lnc", 3], r"lnc is 3 on trn2; legal: 1 or 2"),
    ],
)
def test_what_cannot_be(arguments, reason):
    with pytest.raises(EmulatorError, match=reason):
        run(*arguments, "--on", "trn2")


@pytest.mark.parametrize("option", ["--bytes", "--stride", "--instances", "--ranks"])
def test_a_count_below_one_is_refused(option):
    words = ["all_reduce", "--on", "trn2", "--bytes", "1", option, "0"]
    told = CliRunner().invoke(app, ["plan", "collective", *words])
    assert f"'{option}': '0' is below 1; legal: whole numbers from 1 on" in told.output


def test_a_stride_beyond_the_ranks_is_refused():
    with pytest.raises(EmulatorError, match=r"0 ranks, 1000 apart") as caught:
        run("all_reduce", "--on", "trn2", "--bytes", 1, "--stride", 1000)
    assert caught.value.fix == "at most --stride 64"


@pytest.mark.parametrize(
    ("ranks", "fix"),
    [(2, "at most --stride 32, or --instances 32"), (100, "--instances 1563")],
)
def test_a_stride_beyond_the_ranks_of_some_instances_may_have_more_instances(ranks, fix):
    asked = ("all_reduce", "--on", "trn2", "--bytes", 1, "--instances", 1)
    with pytest.raises(EmulatorError, match=f"{ranks} ranks, 1000 apart, on 1 x") as caught:
        run(*asked, "--stride", 1000, "--ranks", ranks)
    assert caught.value.fix == fix


def test_a_platform_that_cannot_is_named_beside_the_answers_of_the_others():
    asked = ("all_reduce", "--on", "trn1,trn2", "--bytes", 8, "--lnc", 2)
    (answer,) = json.loads(run(*asked, "--json"))
    assert (answer["platform"], answer["ranks"]) == ("trn2", 64)
    assert answer["refused"] == [
        {"platform": "trn1", "reason": "lnc is 2 on trn1; legal: 1", "fix": "--lnc 1"}
    ]
    assert "trn1: no answer: lnc is 2 on trn1; legal: 1; fix: --lnc 1\n" in run(*asked)
    with pytest.raises(EmulatorError, match=r"^lnc is 2 on trn1"):
        run("all_reduce", "--on", "trn1,p5en", "--bytes", 8, "--lnc", 2)


def test_instances_without_efa_are_refused():
    with pytest.raises(EmulatorError, match=r"several trn1\.2xlarge, which have no EFA"):
        run("all_reduce", "--on", "trn1.2xlarge", "--ranks", 8, "--bytes", 1)
