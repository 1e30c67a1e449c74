"""Hidden factors come back from logs, and the renewed decision is that of the true ones."""

import math
import os
import shutil
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from log_cases import csv_log, step_s, titan_log, vllm_log
from workload_cases import BERT, SMALL

from trnsim.arch.catalogue import catalogue
from trnsim.decide.assess import AssessmentOptions
from trnsim.decide.inventory import read
from trnsim.decide.pilot.choose import PilotRequest, pilot
from trnsim.decide.pilot.measure import read_logs
from trnsim.decide.pilot.refit import Factor
from trnsim.decide.pilot.renew import result, workload_decision
from trnsim.decide.pilot.thresholds import FAILURES, Threshold
from trnsim.decide.times import Predictor

COMPANIES = Path(__file__).parents[1] / "companies"
ASKED = AssessmentOptions(on=("trn1.32xlarge",), as_of=date(2026, 11, 21))
CASES = int(os.environ.get("TRNSIM_PILOT_CASES", "3"))
"""Of each company; docs/runs.md has 100."""
ENOUGH = 50
"""Cases of which some flip the decision."""


class Case:
    """A company's pilot, written once; its predictor has every answer."""

    def __init__(self, name, folder):
        (inventory,) = (COMPANIES / name).glob("inventory.*")
        self.folder, self.predictor, self.rows = folder, Predictor(), catalogue()
        self.pilot, _ = pilot(inventory, folder, ASKED, PilotRequest(), predictor=self.predictor)
        (self.workload,) = read(inventory)

    def logs(self, today=1.0, there=1.0, seed=0, **settings):
        """Logs of both sides with these factors."""
        paths = [
            csv_log(
                self.folder / f"{side}.csv",
                step_s(self.pilot, side, factor),
                seed=2 * seed + at,
                **settings,
            )
            for at, (side, factor) in enumerate((("today", today), ("there", there)))
        ]
        return read_logs(self.pilot, paths)

    def result(self, logs, pilot=None):
        return result(pilot or self.pilot, self.folder, logs, predictor=self.predictor)

    def true(self, today, there):
        """The decision if the factors were known."""
        names = self.pilot.today.instance, self.pilot.there.instance
        factors = dict(zip(names, (Factor(today, 0.0), Factor(there, 0.0)), strict=True))
        return workload_decision(self.pilot, self.workload, factors, self.rows, self.predictor)


@pytest.fixture(scope="module")
def laws(tmp_path_factory):
    return Case("laws", tmp_path_factory.mktemp("pilot"))


@pytest.fixture(scope="module", params=["laws", "recipes"])
def case(request, tmp_path_factory, laws):
    return laws if request.param == "laws" else Case("recipes", tmp_path_factory.mktemp("pilot"))


@pytest.mark.slow
def test_hidden_factors_come_back_and_the_decision_is_that_of_the_truth(case):
    drawn = np.random.default_rng(19).uniform(0.7, 1.5, (CASES, 2))
    right, verdicts = 0, set()
    for seed, (today, there) in enumerate(drawn):
        found = case.result(case.logs(today, there, seed=seed, noise=0.08))
        assert found.today.factor == pytest.approx(today, rel=0.05)
        assert found.there.factor == pytest.approx(there, rel=0.05)
        truth = case.true(today, there)
        verdicts.add(truth.verdict)
        right += (found.renewed.verdict, found.renewed.best) == (truth.verdict, truth.best)
    assert CASES < ENOUGH or len(verdicts) > 1
    assert right >= 0.95 * CASES


def test_without_factors_the_decision_stands_and_is_surer(laws):
    found = laws.result(laws.logs())
    before = laws.pilot.workload_decision
    there = next(one for one in found.renewed.candidates if one.instance == "trn1.32xlarge")
    old = next(one for one in before.candidates if one.instance == "trn1.32xlarge")
    assert there.saving.p50 == pytest.approx(old.saving.p50, abs=0.02)
    assert there.saving.p90 - there.saving.p10 < (old.saving.p90 - old.saving.p10) / 2
    assert found.there.new_error < found.there.old_error / 5


@pytest.mark.slow
def test_hours_of_a_side_grow_by_its_factor(laws):
    found = laws.result(laws.logs(today=0.8, there=1.25, noise=0.0))
    old = laws.pilot.workload_decision
    assert found.renewed.today.paid_hours == pytest.approx(0.8 * old.today.paid_hours, rel=1e-4)
    there, before = (
        next(one for one in each.candidates if one.instance == "trn1.32xlarge")
        for each in (found.renewed, old)
    )
    assert there.paid_hours == pytest.approx(
        1.25 * before.paid_hours, rel=0.02
    )  # on more instances
    cost = before.usd_per_month.p50 * 1.25 / 0.8
    assert there.usd_per_month.p50 == pytest.approx(cost, rel=0.02)


def test_a_rate_of_one_accelerator_counts_each_rank(laws):
    paths = [
        titan_log(
            laws.folder / f"{side}.log",
            laws.pilot.sides[side].rate_per_s.p50 / laws.pilot.sides[side].ranks / 1.3,
            noise=0.0,
        )
        for side in ("today", "there")
    ]
    found = laws.result(read_logs(laws.pilot, paths))
    assert found.there.factor == pytest.approx(1.3, rel=0.01)


def test_failed_requests_of_a_training_pilot_are_not_measured(laws):
    """A threshold that no pilot of training has, in a file that was changed by hand."""
    threshold = Threshold(FAILURES, "of all", 0.01, is_least=False, source="")
    pilot = replace(laws.pilot, thresholds=(threshold,))
    (check,) = laws.result(laws.logs(), pilot).checks
    assert (check.is_met, check.note) == (None, "not measured")


def checks(found):
    return {one.name: one for one in found.checks}


def test_all_thresholds_are_met_where_the_model_is_right(laws):
    found = laws.result(laws.logs(there=0.95))
    assert found.failed == ()
    assert [one.name for one in found.unmeasured] == ["logits"]
    usd = checks(found)["USD a month"]
    there = next(one for one in found.renewed.candidates if one.instance == "trn1.32xlarge")
    assert usd.figure == there.usd_per_month.p50


@pytest.mark.slow
def test_a_slow_machine_fails_its_throughput_and_its_dollars(laws):
    found = laws.result(laws.logs(there=2.5))
    failed = {one.name for one in found.failed}
    assert failed == {"throughput P10", "throughput break-even", "USD a month"}
    assert found.renewed.verdict == "no-go"


def differing(laws, there_loss, count=1, spread=0.0):
    """Logs whose losses there end at `there_loss`, with `count` of today that differ."""
    paths = [
        csv_log(laws.folder / f"today-{at}.csv", step_s(laws.pilot, "today"),
                loss=2.0 + spread * (at - (count - 1) / 2), seed=at)
        for at in range(count)
    ]  # fmt: skip
    there = csv_log(
        laws.folder / "there.csv", step_s(laws.pilot, "there"), loss=there_loss, seed=99
    )
    return laws.result(read_logs(laws.pilot, [*paths, there]))


def test_a_loss_outside_its_band_is_said_and_holds_a_go_back(laws):
    found = differing(laws, 2.2)
    assert checks(found)["loss"].is_met is False
    assert laws.pilot.workload_decision.verdict == "go"
    assert found.renewed.verdict == "pilot"
    assert "loss left the band" in found.renewed.reason


def test_the_noise_of_three_runs_of_today_sets_the_band(laws):
    found = checks(differing(laws, 2.06, count=3, spread=0.1))["loss"]
    assert found.is_met
    assert found.limit > 0.1
    assert "of 3 runs of today" in found.note
    tight = checks(differing(laws, 2.06, count=3))["loss"]
    assert tight.is_met is False


@pytest.mark.parametrize("count", [1, 3])
def test_a_loss_of_zero_today_leaves_every_band(count, laws):
    found = laws.logs()
    side = {log.side: log for log in found.logs}
    zero = (replace(side["today"], loss=0.0),) * count
    check = checks(laws.result(replace(found, logs=(*zero, side["there"]))))["loss"]
    assert (check.is_met, check.figure, check.note) == (False, None, "today's loss is 0 on average")


def test_a_loss_that_is_no_number_leaves_every_band(laws):
    found = laws.logs()
    broken = tuple(replace(one, loss=None) if one.side == "there" else one for one in found.logs)
    check = checks(laws.result(replace(found, logs=broken)))["loss"]
    assert check.is_met is False
    assert check.figure is None


def test_logits_are_held_against_their_dtype(laws):
    found = laws.logs()
    near, far = (laws.result(replace(found, logits=one)) for one in (0.03, 0.04))
    limit = 2**-8 * math.sqrt(2 * 32)
    assert checks(near)["logits"].limit == pytest.approx(limit)
    assert checks(near)["logits"].is_met
    assert checks(far)["logits"].is_met is False
    assert far.renewed.verdict == "pilot"


HEADER = "workload,model_config,kind,{unit},current_instance,usd_per_month,{more}\n"


@pytest.fixture(scope="module")
def kept_service(tmp_path_factory):
    """A service with a promise, on a small model: its folder, its pilot, and all answers."""
    folder = tmp_path_factory.mktemp("serving")
    return folder, [], Predictor()


@pytest.fixture
def serving(kept_service, short_runs):  # noqa: ARG001  each answer is one of short runs
    """The service, whose pilot is written once."""
    folder, pilots, predictor = kept_service
    if not pilots:
        pilots.append(_pilot_of_service(folder, predictor))
    return folder, pilots[0], predictor


def _pilot_of_service(folder, predictor):
    shutil.copy(SMALL, folder)
    (folder / "inventory.csv").write_text(
        HEADER.format(unit="tokens_per_month", more="input_len,output_len,tpot_s")
        + "chat,small_llama.json,serve,1e11,g5.xlarge,30000,800,100,0.1\n"
    )
    asked = replace(ASKED, on=("inf2.xlarge",))
    path = folder / "inventory.csv"
    return pilot(path, folder, asked, PilotRequest(), predictor=predictor)[0]


def loaded(serving, today, there, **settings):
    folder, made, predictor = serving
    paths = [
        vllm_log(folder / f"{side}.json", made.sides[side].rate_per_s.p50 / factor, **settings)
        for side, factor in (("today", today), ("there", there))
    ]
    return result(made, folder, read_logs(made, paths), predictor=predictor)


@pytest.mark.slow
def test_load_tests_give_factors_and_promises(serving):
    found = loaded(serving, 0.8, 1.3)
    assert found.today.factor == pytest.approx(0.8)
    assert found.there.factor == pytest.approx(1.3)
    assert checks(found)["TPOT P99"].figure == pytest.approx(0.045)
    assert checks(found)["TPOT P99"].is_met
    assert checks(found)["failed requests"].figure == 0
    assert found.renewed.candidates[1].slo == "met"


@pytest.mark.slow
def test_a_promise_that_a_load_test_breaks_forbids_the_move(serving):
    found = loaded(serving, 1.0, 1.0, tpot_ms=90.0, failed=100)
    failed = {one.name for one in found.failed}
    assert failed >= {"TPOT P99", "failed requests"}
    assert found.renewed.candidates[1].slo == "missed"
    assert found.renewed.verdict == "no-go"


def test_passes_are_read_from_a_table_of_batches(tmp_path):
    shutil.copy(BERT, tmp_path)
    (tmp_path / "inventory.csv").write_text(
        HEADER.format(unit="items_per_month", more="sequence,batch,latency_s")
        + "labels,bert.json,infer,2e10,g5.xlarge,20000,128,8,1\n"
    )
    asked, predictor = replace(ASKED, on=("inf2.xlarge",)), Predictor()
    made, _ = pilot(
        tmp_path / "inventory.csv", tmp_path, asked, PilotRequest(), predictor=predictor
    )
    paths = []
    for side, factor in (("today", 1.2), ("there", 0.9)):
        batch_s = factor * 8 / made.sides[side].rate_per_s.p50
        rows = [f"{at * batch_s:.6f},{batch_s:.6f},{batch_s:.6f},8" for at in range(1000)]
        paths.append(tmp_path / f"{side}.csv")
        paths[-1].write_text("\n".join(["sent_s,ttft_s,e2e_s,output_tokens", *rows]))
    found = result(made, tmp_path, read_logs(made, paths), predictor=predictor)
    assert found.today.factor == pytest.approx(1.2, rel=0.01)
    assert found.there.factor == pytest.approx(0.9, rel=0.01)
    assert checks(found)["latency P99"].is_met
