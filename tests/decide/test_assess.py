"""Twelve companies get the decision that a consultant would take, for any seed."""

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
import yaml

from trnsim.arch.catalogue import catalogue
from trnsim.decide.assess import (
    AssessmentOptions,
    assess,
    assumptions,
    decide,
    migration,
    payment_assumptions,
    stack,
    workload_assumptions,
)
from trnsim.decide.candidates import WorkloadPlacements
from trnsim.decide.decision import Migration
from trnsim.decide.decision import read as read_decision
from trnsim.decide.inventory import Shape, read
from trnsim.decide.programs import findings
from trnsim.decide.times import Predictor
from trnsim.errors import BadInput
from trnsim.system.serve.demand import Slo

COMPANIES = Path(__file__).parent / "companies"
NAMES = sorted(one.parent.name for one in COMPANIES.glob("*/expected.yaml"))
ON = ("trn1.32xlarge", "trn2.48xlarge", "trn2.3xlarge", "inf1.xlarge", "inf2.xlarge")
"""Candidates that any of the decisions is about."""
ASKED = AssessmentOptions(on=ON, as_of=date(2026, 11, 21))
DEAR = pytest.mark.slow
"""Of companies whose answer takes seconds, and of which others like them are cheap."""
DEARER = ("frontier", "games", "helpdesk", "proteins", "recipes", "travel", "weather")


@pytest.fixture(scope="module")
def kept_answers():
    """Of questions in slow tests, and of those in all others."""
    return {True: Predictor(), False: Predictor()}


@pytest.fixture
def predictor(kept_answers, request):
    """Equal questions of all tests are asked once; daily, of short runs, which decide the same."""
    is_slow = request.node.get_closest_marker("slow") is not None
    if not is_slow:
        request.getfixturevalue("short_runs")
    return kept_answers[is_slow]


def expected(name):
    return yaml.safe_load((COMPANIES / name / "expected.yaml").read_text(encoding="utf-8"))


def inventory(name):
    (found,) = (COMPANIES / name).glob("inventory.*")
    return found


def decided(name, predictor, asked=ASKED, **changes):
    """The decision about the company's workload, with some of its fields changed."""
    (workload,) = read(inventory(name))
    places = WorkloadPlacements(predictor, catalogue(), as_of=asked.as_of)
    return decide(replace(workload, **changes), ON, places, asked)


@pytest.mark.slow_cases(*DEARER)
@pytest.mark.parametrize("name", NAMES)
def test_the_decision_is_the_one_expected(name, predictor):
    (found,) = assess(inventory(name), ASKED, predictor=predictor).workloads
    said = expected(name)
    assert (found.verdict, found.is_close_call) == (said["verdict"], said["is_close_call"])
    chip = None if found.best is None else catalogue().instances[found.best].accelerator
    assert chip == said["chip"]


@pytest.mark.slow_cases(*DEARER)
@pytest.mark.parametrize("name", NAMES)
def test_no_decision_changes_over_twenty_seeds(name, predictor):
    found = [decided(name, predictor, replace(ASKED, seed=seed)) for seed in range(20)]
    assert len({(one.verdict, one.best) for one in found}) == 1


@pytest.mark.slow_cases(*DEARER)
@pytest.mark.parametrize("name", NAMES)
def test_staying_saves_nothing(name, predictor):
    found = decided(name, predictor)
    staying = found.candidates[0]
    assert staying.instance == found.today.instance
    assert staying.saving is None or abs(staying.saving.p50) < 0.01


@pytest.mark.slow_cases(*DEARER)
@pytest.mark.parametrize("name", NAMES)
def test_every_dollar_follows_from_the_file(name, predictor, tmp_path):
    path = assess(inventory(name), ASKED, predictor=predictor).write(tmp_path / "decision.json")
    (found,) = read_decision(path).workloads
    today = found.today
    for one in found.candidates:
        if one.usd_per_month is None:
            assert one.price is None
            continue
        cost = one.paid_hours * one.price.usd_per_hour
        cost /= today.paid_hours * today.price.usd_per_hour
        assert one.usd_per_month.p50 == pytest.approx(today.usd_per_month * cost)
        assert one.saving.p50 == pytest.approx(1 - cost)


@pytest.mark.parametrize(
    ("here", "there", "weeks"),
    [
        ("p5.48xlarge", "g6e.xlarge", 2),
        ("trn1.32xlarge", "inf2.xlarge", 2),
        ("inf1.xlarge", "inf1.24xlarge", 2),
        ("p5.48xlarge", "trn2.48xlarge", 12),
        ("trn1.32xlarge", "g5.xlarge", 12),
        ("inf1.xlarge", "inf2.xlarge", 12),
        ("inf1.xlarge", "g5.xlarge", 12),
        ("trn1.32xlarge", "inf1.xlarge", 12),
    ],
)
def test_the_same_programs_on_another_chip_take_less_work(here, there, weeks):
    sides = (stack(name, name.startswith(("trn", "inf"))) for name in (here, there))
    assert migration(*sides) == Migration(weeks, 5000, weeks * 5000)


def test_programs_of_inf1_are_written_again_for_later_chips(predictor):
    path = COMPANIES / "thumbs" / "inventory.csv"
    (found,) = assess(path, ASKED, predictor=predictor).workloads
    assert found.migration.usd == 60_000


def bill(name, usd):
    (workload,) = read(inventory(name))
    return {"current": replace(workload.current, usd_per_month=usd)}


@pytest.mark.parametrize(
    ("name", "changes", "verdict", "text"),
    [
        ("bank", {"is_portability_needed": False, "other_clouds": ()}, "go", "inf2.xlarge saves"),
        ("parcels", {"is_portability_needed": True}, "no-go", "several clouds"),
        ("parcels", bill("parcels", 1000.0), "no-go", "0% of draws"),
        ("photos", bill("photos", 4000.0), "no-go", "of draws"),
        ("laws", {"framework": "cuda"}, "no-go", "CUDA-only"),
        pytest.param("games", bill("games", 5000.0), "no-go", "of draws", marks=DEAR),
        pytest.param("helpdesk", bill("helpdesk", 3000.0), "no-go", "more than today", marks=DEAR),
        pytest.param(
            "recipes",
            bill("recipes", 300_000.0),
            "pilot",
            "pays back within 12 months",
            marks=DEAR,
        ),
        pytest.param(
            "travel", {"is_portability_needed": True}, "no-go", "several clouds", marks=DEAR
        ),
    ],
)
def test_one_input_flips_a_decision_and_the_reason_says_so(name, changes, verdict, text, predictor):
    found = decided(name, predictor, **changes)
    assert found.verdict == verdict
    assert text in found.reason


def test_lengths_that_nobody_states_are_said():
    (given,) = read(inventory("travel"))
    assert workload_assumptions(given) == ()
    even = "demand is the same at all hours: the inventory names no peak_ratio"
    bare = replace(given, shape=Shape(), peak_ratio=None)
    assert workload_assumptions(bare) == (
        "input_len is 2,048 tokens",
        "output_len is 256 tokens",
        even,
    )
    (trained,) = read(inventory("laws"))
    assert workload_assumptions(replace(trained, shape=Shape())) == ("sequence is 8,192 tokens",)
    assert workload_assumptions(trained) == ()


def test_a_limit_without_effect_is_said():
    (served,) = read(inventory("travel"))
    assert workload_assumptions(replace(served, deadline_hours=9.0)) == (
        "deadline_hours has no effect on this workload of kind serve",
    )
    (trained,) = read(inventory("laws"))
    assert workload_assumptions(replace(trained, slo=Slo(latency_s=1.0))) == (
        "latency_s has no effect on this workload of kind train",
    )


def test_even_demand_of_passes_with_a_latency_is_said():
    (given,) = read(inventory("bank"))
    even = "demand is the same at all hours: the inventory names no peak_ratio"
    assert workload_assumptions(given) == (even,)


@pytest.mark.parametrize("options", [{"draws": 0}, {"draws": 10**9}, {"seed": -1}])
def test_draws_and_seeds_that_nothing_can_be_drawn_by_are_refused(options):
    with pytest.raises(BadInput, match=r"^(draws|seed) is .*; legal: "):
        AssessmentOptions(**options)


def test_what_is_paid_for_is_said():
    assert "sold by the day" in payment_assumptions("capacity_block", is_always_on=False)[0]
    assert "paid all year" in payment_assumptions("savings_plan_1y", is_always_on=False)[0]
    assert (
        payment_assumptions("savings_plan_1y", is_always_on=True)
        == payment_assumptions("on_demand", is_always_on=False)
        == ()
    )


@pytest.mark.slow
def test_a_deadline_is_kept_by_more_instances(predictor):
    found = decided("laws", predictor, deadline_hours=200.0)
    (rule,) = [one for one in found.rules if one.name == "maximum performance"]
    assert rule.evidence == "an instance with AWS's chips keeps what is promised"


@pytest.mark.slow
@pytest.mark.usefixtures("shortest_runs")
def test_places_that_miss_their_promise_come_after_those_that_keep_it():
    found = decided("travel", Predictor(), slo=Slo(tpot_s=0.001))
    assert "maximum performance" in found.reason
    late = [one.slo == "missed" for one in found.candidates[1:] if one.refused is None]
    assert late == sorted(late)


FLIPS = [
    pytest.param(name, flip, marks=DEAR if name in DEARER else ())
    for name in NAMES
    for flip in expected(name)["flips"]
]


def flipped(workload, field, value):
    """A workload of which an inventory's field has another value."""
    now = workload.current
    change = {
        "framework": lambda: {"framework": value},
        "sources": lambda: {"sources": ()},
        "portability_needed": lambda: {"is_portability_needed": value == "yes"},
        "other_clouds": lambda: {"other_clouds": tuple(filter(None, [value]))},
        "usd_per_month": lambda: {"current": replace(now, usd_per_month=float(value))},
        "current_instance": lambda: {"current": replace(now, instance=value)},
    }[field]
    return replace(workload, **change())


@pytest.mark.parametrize(("name", "flip"), FLIPS, ids=lambda one: str(one)[:40])
def test_every_flip_that_is_written_down_happens(name, flip, predictor):
    (workload,) = read(inventory(name))
    for field, value in {flip["field"]: flip["value"], **flip.get("and", {})}.items():
        workload = flipped(workload, field, value)
    places = WorkloadPlacements(predictor, catalogue(), as_of=ASKED.as_of)
    found = decide(workload, ON, places, ASKED, findings(workload))
    is_close = flip.get("is_close_call", expected(name)["is_close_call"])
    assert (found.verdict, found.is_close_call) == (flip["verdict"], is_close), found.reason


def test_every_assumption_has_a_source():
    assert all(one.source and one.value is not None for one in assumptions())


def test_an_unknown_kind_is_refused():
    with pytest.raises(BadInput, match="purchase kind 'reserved' is not known; legal: on_demand"):
        AssessmentOptions(kind="reserved")
