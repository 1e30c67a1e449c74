import json

from typer.testing import CliRunner

from trnsim.arch import TARGETS
from trnsim.arch.catalogue import catalogue
from trnsim.cli import app
from trnsim.place.machine import compared_platforms, platforms, trainiums


def run(*arguments):
    result = CliRunner().invoke(app, ["chips", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_every_chip_and_gpu_has_a_line_of_at_most_100_columns():
    lines = run().splitlines()
    names = [*catalogue().chips, *catalogue().gpus]
    assert [line.split()[0] for line in lines[1 : 1 + len(names)]] == names
    assert max(map(len, lines)) <= 100
    assert "e+" not in run()


def test_the_published_peak_stands_beside_that_of_the_clock():
    (line,) = [line for line in run().splitlines() if line.startswith("trainium3 ")]
    assert line.split()[:6] == ["trainium3", "2025", "671", "629.1", "2,517", "2,517"]


def test_contradictions_are_listed_with_both_readings():
    assert run().count("sources disagree, ") == len(catalogue().contradictions)


def test_json_has_a_source_for_each_figure():
    chips = {chip["name"]: chip for chip in json.loads(run("--json"))}
    peak = chips["trainium2"]["peak_flop_per_s"]["bf16"]
    assert peak == {
        "value": 667e12,
        "evidence": "documented",
        "source": "aws-neuron-sdk@81ce03ae:arch/trainium2.rst",
    }
    assert chips["trainium2"]["clock_peak_flop_per_s"]["bf16"]["value"] == 629.1e12
    assert chips["tpu7x"]["kind"] == "tpu"
    assert chips["h100"]["power_w"]["value"] == 700


def test_an_announced_chip_is_marked_and_never_a_default():
    chips = {chip["name"]: chip for chip in json.loads(run("--json"))}
    assert chips["trainium4"]["is_announced"]
    assert chips["trainium4"]["hybrids"]
    rows = catalogue()
    names = {*rows.chips, *rows.gpus, *rows.instances, *TARGETS}
    names |= {*compared_platforms(), *trainiums(), *platforms().values()}
    assert not names & rows.announced.keys()
    assert all(one.accelerator not in rows.announced for one in rows.instances.values())
