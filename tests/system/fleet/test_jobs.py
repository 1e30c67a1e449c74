"""Training jobs of scenarios."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from trnsim.errors import BadInput
from trnsim.facts import Interval
from trnsim.system.fleet import jobs
from trnsim.system.train.run import Reliability, goodput

ROOT = Path(__file__).resolve().parents[3]
TABLE = "tokens_per_s: {64: 1e3, 640: 1e4}"


def test_widths_are_whole_blocks_from_waiting_to_the_largest(scenario_of):
    (job,) = scenario_of({"largest_chips: 640": "largest_chips: 640\n    step_chips: 256"}).jobs
    assert [one.chips for one in job.levels] == [0, 64, 320, 576, 640]
    assert [one.blocks for one in job.levels] == [0, 1, 5, 9, 10]
    assert [one.tokens_per_s for one in job.levels] == pytest.approx([0, 1e3, 5e3, 9e3, 1e4])


def test_goodput_is_that_of_a_run(scenario_of):
    (job,) = scenario_of(
        {
            "checkpoint_s: 0": "checkpoint_s: 5",
            "recovery_s: 0": "recovery_s: 300",
            "straggler_spread: 0": "straggler_spread: 0.01",
            "chip_mtbf_hours: 1e12": "chip_mtbf_hours: 50000",
        }
    ).jobs
    lost = Reliability(50_000 * 3600, 5, 300, replacement_s=0)
    expected = goodput(640, 40, lost)
    assert job.levels[-1].kept == pytest.approx(expected.kept_fraction)
    assert job.levels[-1].kept_tokens_per_s == pytest.approx(1e4 * expected.goodput)


def test_a_token_is_worth_what_it_costs_alone_or_what_is_given(scenario_of):
    (job,) = scenario_of().jobs
    assert job.usd_per_token == pytest.approx(64 / 3600 / 1e3, rel=1e-3)
    (job,) = scenario_of({TABLE: TABLE + "\n    usd_per_million_tokens: 3"}).jobs
    assert job.usd_per_token == pytest.approx(3e-6)


def test_tokens_a_second_are_planned_at_the_smallest_and_the_largest_width(
    scenario_of, monkeypatch
):
    def planned(model, name, instances, asked, effort):
        assert (model.name, name, effort.budget) == ("llama-3.1-8b", "trn2.48xlarge", 12)
        assert asked.sequence == 8192
        rate = Interval(0.9, 2.0 - instances / 100, 2.1)
        return SimpleNamespace(step=SimpleNamespace(tokens_per_s_per_chip=rate))

    monkeypatch.setattr(jobs, "best", planned)
    model = f"model: {ROOT / 'examples' / 'llama-3.1-8b.json'}"
    (job,) = scenario_of({TABLE: model, "largest_chips: 640": "largest_chips: 192"}).jobs
    assert job.basis == "planned on trn2.48xlarge"
    found = [one.tokens_per_s for one in job.levels]
    assert found == pytest.approx([0, 64 * 1.96, (64 * 1.96 + 192 * 1.88) / 2, 192 * 1.88])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("smallest_chips: 64", "smallest_chips: 32", "legal: a multiple of 64, the chips of a"),
        (
            "smallest_chips: 64",
            "smallest_chips: 6400",
            "jobs.big.smallest_chips is '6400'; legal: up to 1,280, the chips",
        ),
        (
            "largest_chips: 640",
            "largest_chips: 0",
            "jobs.big.largest_chips is '0'; legal: a whole number",
        ),
        (TABLE, "tokens_per_s: {128: 1, 640: 2}", "from 128 to 640 chips; legal: from smallest"),
        (
            TABLE,
            "tokens_per_s: {many: 1, 640: 2}",
            "jobs.big.tokens_per_s.many: legal names: whole",
        ),
        (TABLE, "tokens_per_s: {64: -1, 640: 2}", "jobs.big.tokens_per_s.64 is '-1'; legal"),
        (TABLE, "count: 1", "jobs.big.tokens_per_s is missing"),
        (TABLE, TABLE + "\n    model: a.json", "model is given, from which it is planned"),
        (TABLE, TABLE + "\n    within: town", "jobs.big.within is 'town'; legal: building, fleet"),
        (
            TABLE,
            TABLE + "\n    count: 3",
            "a.yaml:18: jobs: big: no building has room for 640 chips",
        ),
        (
            TABLE,
            TABLE + "\n    save_s: 3601",
            "jobs.big.save_s is '3601'; legal: a number from 0 to 3,600",
        ),
        (
            TABLE,
            TABLE + "\n    speed: 1",
            "the field 'jobs.big.speed' is not known; legal: count, within",
        ),
        ("ultraservers: 10", "ultraservers: 5", "no building has room for 640 chips"),
    ],
)
def test_bad_jobs_are_refused(scenario_of, old, new, said):
    with pytest.raises(BadInput) as error:
        scenario_of({old: new})
    assert said in str(error.value)


def test_too_many_widths_are_refused(scenario_of):
    with pytest.raises(BadInput, match=r"65 widths .* legal: at most 64 widths"):
        scenario_of(
            {
                "ultraservers: 10": "ultraservers: 65",
                "largest_chips: 640": "largest_chips: 4160",
                TABLE: "tokens_per_s: {64: 1, 4160: 2}",
            }
        )


def test_the_step_that_a_refusal_of_widths_proposes_is_legal(scenario_of):
    wide = {
        "ultraservers: 10": "ultraservers: 70",
        "largest_chips: 640": "largest_chips: 4480",
        TABLE: "tokens_per_s: {64: 1, 4480: 2}",
    }
    with pytest.raises(BadInput, match="fix: give step_chips from 128 on"):
        scenario_of(wide)
    (job,) = scenario_of(
        wide | {"largest_chips: 640": "largest_chips: 4480\n    step_chips: 128"}
    ).jobs
    assert len(job.levels) <= 65
