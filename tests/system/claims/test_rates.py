"""Rates that are kept are those that the planner gives."""

import os
from pathlib import Path

import pytest
from workload_rates import WORKLOADS, done, instances_of

from trnsim.arch.catalogue import parse
from trnsim.system.claims.amounts import Absent, Amount, Citation, Grade
from trnsim.system.claims.rates import geometric_mean, rate, stored_rates
from trnsim.system.claims.rows import RowReader

CONFIGS = Path(__file__).parents[3] / "bench/system/configs"
QUICK = (
    ("train Llama 3 8B", "p4d.24xlarge"),
    ("serve Llama 3 8B", "trn1.32xlarge"),
    *((f"infer {name} base", on) for name in ("BERT", "ViT", "CLIP") for on in ("inf1.xlarge",
                                                                               "g6.xlarge")),
)  # fmt: skip
EVERY = [(one.name, on) for one in WORKLOADS for on in instances_of(one)]
CHECKED = EVERY if os.environ.get("TRNSIM_CLAIMS") == "all" else QUICK


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize(("name", "instance"), CHECKED)
def test_a_kept_rate_is_what_the_planner_gives(name, instance):
    one = next(one for one in WORKLOADS if one.name == name)
    found = done(one, CONFIGS / one.config, instance)
    stored = stored_rates()[name][instance]
    assert found.per_s == pytest.approx(stored["per_s"], rel=1e-3), "run bench/system/claims.py"
    assert list(found.assumed) == stored["assumed"]


def test_every_workload_has_a_rate_on_every_instance():
    assert {(name, on) for name, found in stored_rates().items() for on in found} == set(EVERY)


def test_a_rate_cites_instance_and_chip(rows):
    found = rate(RowReader(parse(rows)), "train GPT-3 6.7B", "trn1.32xlarge")
    assert {origin.row for origin in found.origins} == {
        "instances/trn1.32xlarge",
        "chips/trainium1",
    }
    assert {origin.kind for origin in found.origins} == {Grade.MODEL}
    assert not any(origin.doubt for origin in found.origins)


def test_a_changed_row_has_no_rate(rows):
    rows["chips"]["trainium1"]["peak"]["bf16"]["value"] = 380
    with pytest.raises(Absent, match=r"a rate of .* on trn1.32xlarge as its row now is"):
        rate(RowReader(parse(rows)), "train GPT-3 6.7B", "trn1.32xlarge")


def test_an_instance_without_a_rate_is_named(rows):
    with pytest.raises(Absent, match=r"room for .train BERT large. on g5\.xlarge"):
        rate(RowReader(parse(rows)), "train BERT large", "g5.xlarge")


def test_the_geometric_mean_cites_all():
    one, two = (Amount(v, (Citation(Grade.ROW, f"chips/{v}"),)) for v in (2.0, 8.0))
    mean = geometric_mean([one, two])
    assert mean.value == pytest.approx(4)
    assert mean.origins == one.origins + two.origins
