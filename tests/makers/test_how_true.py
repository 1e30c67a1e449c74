"""How true is it: every fact belongs to a part, and every assumed one is named with its reason."""

import how_true
import pytest
from how_true import PARTS

from trnsim.arch.catalogue import catalogue
from trnsim.facts import Evidence


@pytest.fixture(scope="module")
def page():
    return how_true.page()


def test_every_fact_describes_exactly_one_part(core):
    names = [name for names in PARTS.values() for name in names]
    assert sorted(names) == sorted(core.facts())


def test_every_assumed_fact_is_named_with_its_reason(core, page):
    assumed = page.partition("## What is assumed of a NeuronCore")[2].partition("## Every fact")[0]
    for name, fact in core.facts().items():
        rows = [line for line in assumed.splitlines() if f"`{name}`" in line]
        reasons = [row for row in rows if core.name[-2:] in row.split("|")[3]]
        if fact.provenance.kind is Evidence.ASSUMED:
            assert fact.provenance.source in reasons[0]
        else:
            assert not reasons


def test_the_counts_of_a_core_add_up(core, page):
    (row,) = [line for line in page.splitlines() if line.startswith("| all ") and core.name in line]
    counts = [int(cell.replace("-", "0")) for cell in row.split("|")[3:-1]]
    assert sum(counts) == len(core.facts())


def test_assumed_figures_of_chips_are_named(page):
    assert catalogue().chips["trainium2"].power_w.provenance.kind is Evidence.ASSUMED
    assert "| trainium2 power_w " in page


def test_contradictions_are_told(page):
    for topic, _, _ in catalogue().contradictions:
        assert topic in page
