"""The workload that tells most is chosen, and why the others are not is said."""

from datetime import date
from pathlib import Path

import pytest
from pilot_cases import paired_run
from workload_cases import workload

from trnsim.decide.assess import AssessmentOptions
from trnsim.decide.pilot.choose import PilotRequest, pilot, pilot_assumptions
from trnsim.decide.times import Predictor
from trnsim.errors import BadInput
from trnsim.system.serve.demand import Slo

ROOT = Path(__file__).parents[3]
BERT = ROOT / "tests" / "decide" / "bert.json"
ASKED = AssessmentOptions(on=("inf2.xlarge",), as_of=date(2026, 11, 21))
HEADER = "workload,model_config,kind,items_per_month,current_instance,usd_per_month,framework,"
HEADER += "portability_needed\n"
PREDICTOR = Predictor()


def row(name, usd, *, instance="g5.xlarge", items=2e9, portable="no"):
    return f"{name},bert.json,infer,{items:.0f},{instance},{usd},pytorch,{portable}\n"


@pytest.fixture
def inventory(tmp_path):
    (tmp_path / "bert.json").write_text(BERT.read_text())

    def write(*rows):
        (tmp_path / "inventory.csv").write_text(HEADER + "".join(rows))
        return tmp_path / "inventory.csv"

    return write


def chosen(path, workload=None, **settings):
    made, launch = pilot(path, path.parent / "pilot", ASKED, PilotRequest(workload, **settings),
                         predictor=PREDICTOR)  # fmt: skip
    return made, launch


def test_the_workload_with_most_to_learn_is_chosen(inventory):
    made, launch = chosen(inventory(row("sure", 500_000), row("near", 9_000), row("small", 900)))
    told = {one.workload: one for one in made.told}
    assert made.workload == made.told[0].workload
    assert told[made.workload].net_usd == max(one.net_usd for one in told.values())
    assert "its pilot tells most" in made.why
    assert set(launch) == {"today-run.sh", "there-run.sh"}


def test_a_named_workload_is_taken_whatever_it_tells(inventory):
    made, _ = chosen(inventory(row("sure", 500_000), row("small", 900)), "small")
    assert made.workload == "small"
    assert "it was named" in made.why
    assert len(made.told) == 1


def test_a_settled_decision_says_so(inventory):
    made, _ = chosen(inventory(row("small", 900)))
    assert "the decision is settled without a pilot" in made.why


def test_a_workload_that_a_rule_forbids_is_taken_only_by_its_name(inventory):
    path = inventory(row("open", 9_000), row("bound", 9_000, portable="yes"))
    made, _ = chosen(path)
    assert made.workload == "open"
    refused = next(one for one in made.told if one.workload == "bound")
    assert refused.refused.startswith("several clouds")
    assert chosen(path, "bound")[0].workload == "bound"


def test_without_any_workload_that_could_run_the_reasons_are_said(inventory):
    with pytest.raises(BadInput, match="no workload can have a pilot: bound: several clouds"):
        chosen(inventory(row("bound", 9_000, portable="yes")))


def test_an_unknown_workload_is_refused_with_names_that_are_near(inventory):
    with pytest.raises(
        BadInput, match="'search-2' is not in the inventory; legal: search"
    ) as caught:
        chosen(inventory(row("search", 9_000)), "search-2")
    assert "do you mean search?" in str(caught.value)
    with pytest.raises(BadInput) as caught:
        chosen(inventory(row("search", 9_000)), "zzz")
    assert "do you mean" not in str(caught.value)


def test_the_pilot_rests_on_its_files(inventory):
    made, _ = chosen(inventory(row("search", 9_000)), count=2000)
    assert set(made.digests) == {"../inventory.csv", "../bert.json"}
    assert made.inventory == "../inventory.csv"
    assert made.run.count == 2000
    assert made.migration_usd == 60_000
    assert {one.name for one in made.thresholds} >= {"logits", "throughput P10", "failed requests"}


def test_a_latency_of_whole_requests_is_said_to_have_no_threshold():
    served = workload("serve", slo=Slo(latency_s=3.0))
    (untested,) = [
        each for each in pilot_assumptions(paired_run(), served) if each.name == "latency_s"
    ]
    assert (untested.value, untested.unit) == (3.0, "s")
    assert untested.source.startswith("no threshold: ")
    passed = pilot_assumptions(paired_run(), workload("infer", slo=Slo(latency_s=3.0)))
    assert "latency_s" not in [each.name for each in passed]
