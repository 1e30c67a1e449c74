"""Rows as amounts; deleting any row of the catalogue changes only the claims that cite it."""

import os
import random
from dataclasses import replace
from datetime import date

import pytest

from trnsim.arch.catalogue import catalogue, parse
from trnsim.system.claims import claims
from trnsim.system.claims.amounts import Absent, Grade
from trnsim.system.claims.rows import GUIDE_DAY, RowReader, price_row

ALL = os.environ.get("TRNSIM_CLAIMS") == "all"
SAMPLED = 12
TABLES = ("chips", "gpus", "systems", "rainier", "measurements", "releases", "announced")


def sample(keys):
    """All `keys`, or some of them, drawn with a seed."""
    keys = list(keys)
    return keys if ALL or len(keys) <= SAMPLED else random.Random(19).sample(keys, SAMPLED)  # noqa: S311  no secret


def without(table, key):
    """The catalogue without a row."""
    rows = catalogue()
    if table == "prices":
        return replace(rows, prices=tuple(p for p in rows.prices if price_row(p) != key))
    return replace(rows, **{table: {k: v for k, v in getattr(rows, table).items() if k != key}})


def check_deletions(table, keys, name=None):
    before = claims()
    for key in keys:
        row = name(key) if name else f"{table}/{key}"
        changed = {old.id for old, new in zip(before, claims(without(table, key)), strict=True)
                   if old != new}  # fmt: skip
        assert changed <= {claim.id for claim in before if row in claim.rows}, (row, changed)


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("table", TABLES)
def test_deleting_a_row_changes_only_claims_that_cite_it(table):
    check_deletions(table, sample(getattr(catalogue(), table)))


def test_deleting_an_instance_changes_only_claims_that_cite_it():
    check_deletions("instances", sample(catalogue().instances))


def test_deleting_a_price_changes_only_claims_that_cite_it():
    check_deletions("prices", sample(map(price_row, catalogue().prices)), str)


def test_prices_have_different_keys():
    keys = [price_row(one) for one in catalogue().prices]
    assert len(set(keys)) == len(keys)


def test_deleting_a_cited_row_does_change_its_claims():
    before = {claim.id: claim for claim in claims()}
    after = {claim.id: claim for claim in claims(without("chips", "inferentia1"))}
    assert before["C28"] != after["C28"]
    assert "fp16 of inferentia1" in after["C28"].parts[2].missing


def test_what_is_read_cites_its_row(rows):
    found = RowReader(parse(rows))
    peak = found.peak("trainium2", "bf16")
    assert peak.value == 667e12
    assert [origin.row for origin in peak.origins] == ["chips/trainium2"]
    assert found.count("p5.48xlarge").value == 8
    assert {origin.row for origin in found.instance_peak("p5.48xlarge", "fp8").origins} == {
        "instances/p5.48xlarge",
        "gpus/h100",
    }


@pytest.mark.parametrize(
    ("read", "named"),
    [
        (lambda rows: rows.chip("trn9"), "row chips/trn9"),
        (lambda rows: rows.instance("x.large"), "row instances/x.large"),
        (lambda rows: rows.peak("trainium2", "fp4"), "fp4 of trainium2"),
        (lambda rows: rows.of_chip("trainium3", "power_w"), "power of trainium3"),
        (lambda rows: rows.efa("inf2.xlarge"), "EFA of inf2.xlarge"),
        (lambda rows: rows.system("gb300_nvl72", "fp2"), "fp2 of row systems/gb300_nvl72"),
        (lambda rows: rows.site("chips"), "chips of row rainier/chips"),
        (lambda rows: rows.measured("unheard of"), "unheard of"),
        (lambda rows: rows.release("1.0"), "row releases/1.0"),
        (lambda rows: rows.largest("trainium9"), "an instance with trainium9"),
    ],
)
def test_what_is_not_known_is_named(rows, read, named):
    with pytest.raises(Absent, match=named):
        read(RowReader(parse(rows)))


def test_a_row_that_only_a_judged_document_states_is_in_doubt(rows):
    rows["chips"]["trainium2"]["memory"]["capacity"]["source"] = ["seed1"]
    (origin,) = RowReader(parse(rows)).memory("trainium2").origins
    assert origin.kind is Grade.ASSUMED
    assert origin.doubt.startswith("from a judged document")


def test_prices_of_the_documents_day_come_first():
    known = RowReader(catalogue())
    first = known.prices("p5.48xlarge", "capacity_block")[0]
    assert first.first_seen <= GUIDE_DAY <= first.last_seen
    assert known.prices("no.such", "on_demand") == []


def test_a_pair_takes_our_price_nearest_to_theirs_and_says_what_is_apart():
    pairs = list(RowReader(catalogue()).pairs("trn2.48xlarge", "p5en.48xlarge", ["capacity_block"]))
    newest = max(pairs, key=lambda pair: pair.theirs.first_seen)
    assert newest.ours.first_seen == date(2026, 10, 9)
    assert not newest.is_mixed
    assert newest.caveats == ()
    for pair in pairs:
        apart = (pair.ours.first_seen - pair.theirs.last_seen).days
        assert any("days apart" in one for one in pair.caveats) == (apart > 90)


def test_two_kinds_in_a_pair_are_said():
    (first, *_) = RowReader(catalogue()).pairs(
        "trn2.48xlarge", "p5.48xlarge", ["capacity_block"], ["on_demand"]
    )
    assert first.is_mixed
    assert first.caveats[0] == "mixed prices: capacity_block, on_demand"
