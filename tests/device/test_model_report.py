import re
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from trnsim import arch
from trnsim.compiler.ncc.refusals import CompilerRefusal
from trnsim.device.fallback_policy import state
from trnsim.device.model_report import Subject, exchange_time, report_model
from trnsim.errors import BadInput, NotModelled, OutOfMemory
from trnsim.estimate.estimate import Estimate
from trnsim.graph import Graph
from trnsim.lower import GraphExchange
from trnsim.place.links.program import program_time
from trnsim.place.machine import machine
from trnsim.profile.units import bytes_text, percent_text, time_text
from trnsim.workload import config
from trnsim.workload.model_names import config_file
from trnsim.workload.operators import WHOLE, Pass, Phase

sys.path.append(str(Path(__file__).parents[1] / "lower"))
import bound_oracle


@dataclass(frozen=True)
class Made:
    graph: Graph
    weights: frozenset = frozenset()
    names: dict = field(default_factory=dict)
    operators: tuple = ("dot",)
    missing: tuple = ()
    calls: tuple = ()
    origins: dict = field(default_factory=dict)


def product(rows, columns, inner=64):
    graph = Graph()
    x, w = graph.input((rows, inner), "float32"), graph.input((inner, columns), "float32")
    graph.outputs = [graph.dot_general(x, w, (1, 0))]
    return Made(graph, frozenset([w.number]), {x.number: "x", w.number: "w"})


def beyond():
    """A graph that counts past the end of a table."""
    graph = Graph()
    graph.outputs = [graph.gather(graph.input((3, 4), "float32"), graph.iota((5,), 0))]
    return Made(graph)


def test_a_graph_of_no_framework_is_answered():
    found = report_model(Subject("it", product(16, 32), ("rows", 16)), "trn2", lnc=1)
    lines = found.text(400).splitlines()
    assert lines[0] == "it on trn2"
    assert lines[1].endswith("rows/s")
    assert "8 KiB of weights, 4 KiB of inputs" in lines[10]
    assert found.scaled_estimate.flop == 2 * 16 * 64 * 32


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize(("chip", "lnc"), [("trn1", 1), ("trn2", 1), ("trn2", 2)])
@pytest.mark.parametrize("rows", [16, 4096])
def test_bound_and_use_follow_from_what_the_graph_computes_and_moves(chip, lnc, rows):
    """Of a few rows HBM binds, of many the products: each line again from the oracle's figures."""
    made = product(rows, 512, inner=512)
    found = report_model(Subject("it", made), chip, lnc=lnc)
    lines = {
        line.split()[0]: " ".join(line.split()[1:]) for line in found.text(400).splitlines()[1:]
    }
    flop, nbytes = bound_oracle.flop(made.graph), bound_oracle.nbytes(made.graph)
    core = arch.target(chip).core
    peak = lnc * 2 * core.pe_rows * core.pe_columns * core.tensor_clock_hz
    rate = RATES[chip, lnc]
    whole = found.scaled_estimate
    assert whole.bound_s == pytest.approx(max(flop * core.fp32_passes / peak, nbytes / rate))
    assert (whole.flop, whole.hbm_bytes) == (flop, nbytes)
    assert whole.mfu == pytest.approx(flop / (peak * whole.device_time_s))
    assert whole.mbu == pytest.approx(nbytes / (rate * whole.device_time_s))
    assert whole.bound_s < whole.device_time_s <= whole.time_s
    side = "products at the peak" if rows > 16 else "once over HBM"
    assert side in lines["minimum"]
    assert lines["minimum"].endswith(f"the time is {whole.time_s / whole.bound_s:.1f} times that")
    assert lines["use"].startswith(f"MFU {percent_text(whole.mfu)} of ")
    assert f"({flop / 1e9:.3g} GFLOP), MBU {percent_text(whole.mbu)} of the HBM" in lines["use"]
    assert f"({bytes_text(nbytes)})" in lines["use"]
    assert re.match(re.escape(time_text(whole.bound_s)), lines["minimum"])


RATES = {("trn1", 1): 820 * 2**30 / 2, ("trn2", 1): 16 * 23e9, ("trn2", 2): 2.9e12 / 4}
"""Bytes a second: a half of the stack of two cores, what a core's DMA engines sustain, a stack."""


def test_a_limit_that_binds_is_said_beside_the_time(monkeypatch):
    monkeypatch.setattr(
        "trnsim.compiler.compilation.crowding_note", lambda *_: "room in SBUF: none"
    )
    found = report_model(Subject("it", product(16, 32)), "trn2", lnc=1)
    assert found.text(400).splitlines()[4] == "  limit       room in SBUF: none"
    assert found.scaled_estimate.notes == ("room in SBUF: none",)


def test_what_aws_refuses_is_an_error_under_the_policy_chip(monkeypatch):
    monkeypatch.setattr(state, "policy", "chip")
    with pytest.raises(CompilerRefusal):
        report_model(Subject("it", beyond()), "trn2")


def test_what_aws_refuses_is_said_under_the_policy_host(monkeypatch):
    monkeypatch.setattr(state, "policy", "host")
    assert report_model(Subject("it", beyond()), "trn2").compiler_notes


def test_a_graph_over_hbm_is_refused():
    with pytest.raises(OutOfMemory, match=r"it needs [\d.]+ GiB of HBM at its peak; a logical N"):
        report_model(Subject("it", product(1 << 17, 1 << 17)), "trn2")


@pytest.mark.parametrize("rows", [16, 1 << 17])
def test_cores_that_the_chip_does_not_join_are_refused_before_anything_else(rows):
    with pytest.raises(BadInput, match=r"lnc=2 on trn1; legal: 1, as only trn2 and trn3 join"):
        report_model(Subject("it", product(rows, rows)), "trn1", lnc=2)


def test_an_exchange_takes_what_the_fabric_says():
    exchange = GraphExchange("all_reduce", 1 << 20, (tuple(range(8)),))
    found = exchange_time(exchange, "trn2", 2)
    assert found == program_time("all_reduce", 1 << 20, [range(8)], "trn2", 2)
    assert found.time_s > found.least_s > 0
    program_estimate = exchange_time(GraphExchange("all_reduce", 1 << 20, ((0,),)), "trn2", 2)
    assert (program_estimate.time_s, program_estimate.least_s) == (0.0, 0.0)


def test_an_exchange_that_the_fabric_does_not_know_is_named():
    with pytest.raises(NotModelled, match="swap has no time; all_gather, reduce_scatter"):
        exchange_time(GraphExchange("swap", 8, ((0, 1),)), "trn2", 2)


def test_a_graph_without_a_formula_takes_its_programs_time():
    found = report_model(Subject("it", product(16, 32)), "trn2", lnc=1)
    assert found.planned is None
    assert found.scale == 1.0
    assert found.time_s == pytest.approx(found.program_estimate.time_s)
    assert found.estimate.parts_s["launch"] == found.program_estimate.launch_s
    assert "instructions of its program" in found.text(400)


def planned(time_s):
    """A subject for which plans tell that it takes `time_s`, whatever it is."""
    model_pass = Pass(Phase.ENCODE, 1, 16)
    question = SimpleNamespace(
        machine=machine("trn2"),
        model=config.read(config_file("bert-base")),
        model_pass=model_pass,
        rank=Told(time_s),
        summaries=(),
        split=WHOLE,
    )
    return Subject("it", product(16, 32), ask=lambda *_: question)


class Told:
    """A rank whose passes take what was told."""

    more_spread = 0.0

    def __init__(self, time_s):
        self.time_s = time_s

    def pass_estimate(self, *_):
        """The time."""
        return Estimate({"products": self.time_s}, {"rows": 0.1 * self.time_s}, {"encode": "rows"})


def test_a_program_is_scaled_to_the_time_that_plans_tell():
    found = report_model(planned(1e-3), "trn2", lnc=1)
    program_estimate, whole = found.program_estimate, found.scaled_estimate
    assert found.time_s == whole.time_s == pytest.approx(1e-3)
    assert found.scale == pytest.approx(1e-3 / program_estimate.time_s)
    assert whole.mfu == pytest.approx(program_estimate.mfu / found.scale)
    parts = [sum(one.part.time_s for one in each.shares) for each in (whole, program_estimate)]
    assert parts[0] == pytest.approx(found.scale * parts[1])
    assert f"scaled by {found.scale:.3g} to the time" in found.text(400)
    assert "  from        rows" in found.text(400)


def test_no_time_is_below_what_a_program_needs():
    found = report_model(planned(1e-12), "trn2", lnc=1)
    assert found.time_s == pytest.approx(found.program_estimate.bound_s)
    assert "raised to what no program can be faster than" in found.text(400)


def test_the_json_has_the_numbers_of_the_text():
    found = report_model(Subject("it", product(16, 32)), "trn2", lnc=2)
    plain = found.as_dict()
    assert (plain["target"], plain["lnc"], plain["subject"]) == ("trn2", 2, "it")
    assert plain["estimate"] == found.estimate.as_dict()
    assert plain["program_s"] * plain["scale"] == pytest.approx(found.time_s)
    assert plain["bound_s"] == found.scaled_estimate.bound_s
    assert plain["bound"] in ("products", "HBM", "links")
    assert (plain["exchanges"], plain["missing"], plain["neuronx_cc"]) == ([], [], [])
    assert plain["memory_bytes"] == found.plan.peak_bytes


def test_exchanges_are_summed_by_kind_and_ranks_in_json():
    found = report_model(Subject("it", product(16, 32)), "trn2")
    one, other = (GraphExchange("all_reduce", nbytes, ((0, 1),)) for nbytes in (8, 16))
    some = replace(found, exchanges=((one, 1.0), (other, 2.0), (one, 1.0)))
    assert some.as_dict()["exchanges"] == [
        {
            "name": "all_reduce over 2 ranks",
            "count": 3,
            "bytes": 32,
            "time_s": 4.0,
            "floor": "inside a program",
        }
    ]


def test_exchanges_say_the_time_of_the_answer_and_their_floor():
    one = GraphExchange("all_reduce", 1 << 20, ((0, 1),))
    each_s = exchange_time(one, "trn1", 1).time_s
    program_estimate = replace(
        report_model(Subject("it", product(16, 32)), "trn1", lnc=1), exchanges=((one, each_s),)
    )
    line = next(line for line in program_estimate.text(400).splitlines() if "exchanges  " in line)
    assert "1 all-reduce over 2 ranks inside a program, " in line
    told = replace(
        report_model(planned(1e-3), "trn1", lnc=1),
        exchanges=((one, each_s),),
        planned=Estimate({"products": 1e-3, "exchanges": 3e-4}, {}),
    )
    assert "1 all-reduce over 2 ranks inside a program, 300 us" in told.text(400)


def test_a_pass_that_plans_refuse_takes_its_programs_time_and_says_why():
    def refuse(*_):
        raise BadInput("a group of ranks lies on several inf2.48xlarge, which have no EFA")

    found = report_model(Subject("it", product(16, 32), ask=refuse), "trn2", lnc=1)
    assert found.planned is None
    assert found.time_s == pytest.approx(found.program_estimate.time_s)
    assert "plans cannot be asked: a group of ranks lies on several inf2.48xlarge" in found.text(
        400
    )


def test_a_scaled_program_says_what_it_takes_by_itself():
    found = report_model(planned(1e-3), "trn2", lnc=1)
    assert f"{time_text(found.program_estimate.time_s)} by itself" in found.text(400)
    assert 1e-3 / found.program_estimate.time_s == pytest.approx(found.scale)
    assert "by itself" not in report_model(Subject("it", product(16, 32)), "trn2", lnc=1).text(400)
