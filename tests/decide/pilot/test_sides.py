"""Both sides of a pilot do the same work, and their rates are those of the decision."""

import math
import re
import subprocess
from dataclasses import replace
from shutil import which

import pytest
from pilot_cases import PRICE
from workload_cases import BERT, SMALL, workload

from trnsim.decide.inventory.workload import Shape
from trnsim.decide.pilot.sides import START_HOURS, Host, model_name, pilot_sides
from trnsim.decide.times import Predictor
from trnsim.system.serve.demand import Slo

PAIRS = {
    "train": (SMALL, "p5.48xlarge", "trn1.32xlarge"),
    "serve": (SMALL, "g5.xlarge", "inf2.xlarge"),
    "infer": (BERT, "g5.xlarge", "inf2.xlarge"),
}
PREDICTOR = Predictor()


def runs(kind, price=PRICE, count=None, **changes):
    path, *names = PAIRS[kind]
    given = workload(kind, path=path, **changes)
    places = {
        side: Host(name, PREDICTOR.speed(given, name).speed, price)
        for side, name in zip(("today", "there"), names, strict=True)
    }
    return pilot_sides(given, places, seed=7, count=count), places


def option(text, name):
    (found,) = re.findall(rf"--{name} (\S+)", text)
    return found


@pytest.mark.slow_cases("train")
@pytest.mark.parametrize("kind", PAIRS)
def test_a_side_is_as_fast_as_the_decision_takes_it_to_be(kind):
    found, places = runs(kind)
    for side in (found.today, found.there):
        speed = places[side.name].speed
        assert side.rate_per_s.p50 == pytest.approx(speed.units_per_s, rel=0.02)
        sigma = math.hypot(*speed.sigmas.values())
        assert side.rate_per_s.p90 / side.rate_per_s.p50 == pytest.approx(
            math.exp(1.2815516 * sigma)
        )
        hours = side.units / side.rate_per_s.p50 / 3600 + START_HOURS
        assert side.hours == pytest.approx(hours)
        assert side.usd == pytest.approx(40 * hours * side.instances)


@pytest.mark.slow
def test_a_training_run_has_the_same_batch_seed_and_steps_on_both_sides():
    found, _ = runs("train")
    for side in ("today", "there"):
        text = found.files[f"{side}-torchrun.sh"]
        assert option(text, "global-batch-size") == str(found.run.sequences)
        assert option(text, "train-iters") == "105"
        assert option(text, "seed") == "7"
        assert option(text, "dataloader-type") == "single"
    assert found.today.units == found.there.units == 105 * found.run.sequences * 8192


def test_a_load_test_has_the_same_requests_on_both_sides():
    found, _ = runs("serve", shape=Shape(input_len=300, output_len=100))
    for side in ("today", "there"):
        text = found.files[f"{side}-load.sh"]
        assert option(text, "random-input-len") == "300"
        assert option(text, "random-output-len") == "100"
        assert option(text, "num-prompts") == str(found.run.count)
        assert option(text, "seed") == "7"
        assert option(text, "result-filename") == f"{side}.json"
        assert found.run.count >= 4 * int(option(text, "max-concurrency"))
        assert "--served-model-name small_llama" in found.files[f"{side}-server.sh"]


@pytest.mark.slow
def test_a_promise_leaves_fewer_requests_at_a_time():
    free, _ = runs("serve", shape=Shape(input_len=300, output_len=100))
    bound, _ = runs("serve", shape=Shape(input_len=300, output_len=100), slo=Slo(tpot_s=0.02))
    clients = [int(option(one.files["there-load.sh"], "max-concurrency")) for one in (free, bound)]
    assert clients[1] < clients[0]


def test_passes_have_the_same_items_on_both_sides():
    found, _ = runs("infer", count=500, shape=Shape(sequence=128))
    for side in ("today", "there"):
        text = found.files[f"{side}-run.sh"]
        assert float(option(text, "items")) == found.today.units == found.there.units
        assert option(text, "sequence-length") == "128"
        assert option(text, "log") == f"{side}.csv"


@pytest.mark.parametrize("kind", PAIRS)
def test_scripts_are_ones_that_a_shell_reads(kind, tmp_path):
    found, _ = runs(kind)
    for name, text in found.files.items():
        if name.endswith(".sh"):
            (tmp_path / name).write_text(text)
            subprocess.run([which("bash"), "-n", tmp_path / name], check=True)


def test_without_a_price_a_side_has_no_cost():
    found, _ = runs("infer", price=None)
    assert found.today.usd is None


def test_a_config_file_is_called_by_its_folder(tmp_path):
    given = workload("infer")
    assert model_name(given) == "bert"
    named = replace(given, model_path=tmp_path / "labels" / "config.json")
    assert model_name(named) == "labels"
