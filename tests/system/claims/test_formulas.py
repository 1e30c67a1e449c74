"""Formulas of figures: what they may say, and what each function reads."""

import pytest

from trnsim.arch.catalogue import catalogue, parse
from trnsim.errors import InternalError
from trnsim.system.claims.amounts import Absent
from trnsim.system.claims.formulas import CONSTANTS, FIGURES, FUNCTIONS, value_of
from trnsim.system.claims.published import yaml_data
from trnsim.system.claims.rows import RowReader


@pytest.fixture
def shipped():
    return RowReader(catalogue())


def test_arithmetic_has_the_order_that_python_gives_it(shipped):
    found = value_of('2 * (count("p5.48xlarge") + 4) / 3 - 1', shipped)
    assert found.value == 7
    assert [origin.row for origin in found.origins] == ["instances/p5.48xlarge"]


def test_units_are_names(shipped):
    assert value_of('memory("trainium2") / GIB', shipped).value == 96
    assert value_of("0.5 * peak('trainium2', 'bf16') / TERA", shipped).value == 333.5


@pytest.mark.parametrize(
    ("formula", "word"),
    [
        ('has_format("trainium2", "cfp8")', "no"),
        ('has_format("trainium1", "cfp8")', "yes"),
        ('memory_kind("trainium3")', "HBM3e"),
        ('chip_of("trn1.32xlarge")', "trainium1"),
        ('release("2.26.0", "month")', "2025-09"),
        ('compared(memory("trainium2"), memory("trainium1"))', "more"),
        ('compared(memory("trainium1"), memory("trainium2"))', "less"),
        ('compared(memory("trainium1"), memory("trainium1"))', "as much"),
        ('has_feature("trn3", "mx", "2026-08-21")', "yes"),
        ('has_feature("trn1", "mx", "2026-08-21")', "no"),
        ('new_format("trainium3", "trainium2", "peak_flop_per_s", "bf16")', "not new"),
        ('cheaper_chip("p4d.24xlarge", "trn1.32xlarge", "on_demand")', "not less"),
    ],
)
def test_a_word_cites_what_it_was_read_from(formula, word, shipped):
    found = value_of(formula, shipped)
    assert found.value == word
    assert found.origins


def test_figures_of_rows_and_of_assumptions(shipped):
    watts = value_of('of_chip("trainium2", "power_w")', shipped).value
    per_watt = value_of('peak_per_watt("trainium2", "bf16")', shipped).value
    assert per_watt * watts == pytest.approx(667e12)
    assert value_of('instance_memory("trn1.32xlarge") / GIB', shipped).value == 512
    assert value_of('generations("trainium")', shipped).value == 3
    assert value_of('fact("invested in Anthropic")', shipped).value == 8
    assert value_of("migration_threshold(0.5)", shipped).origins[0].doubt
    half, whole = (
        value_of(f"migration_return(100_000, {saving})", shipped).value for saving in (0.25, 0.5)
    )
    assert whole == 2 * half


def test_an_input_that_is_not_known_is_named(rows):
    rows["prices"] = []
    empty = RowReader(parse(rows))
    for formula, reason in {
        'price("p5.48xlarge", "spot")': "a spot price of p5.48xlarge",
        'cut("p5.48xlarge", "on_demand", "2025-06-01")': "before and after June 2025",
        'cheaper_chip("trn1.32xlarge", "p4d.24xlarge", "on_demand")': "on_demand prices of",
        'generations("inferentia9")': "rows of inferentia9",
    }.items():
        with pytest.raises(Absent, match=reason):
            value_of(formula, empty)


@pytest.mark.parametrize(
    "formula", ['__import__("os").name', "[1]", "count(name='a')", "(lambda: 1)()"]
)
def test_a_formula_is_no_program(formula, shipped):
    with pytest.raises(InternalError, match="no formula has"):
        value_of(formula, shipped)


def test_a_formula_reads_a_row(shipped):
    with pytest.raises(InternalError, match="reads no row"):
        value_of("1 + 1", shipped)


def test_every_name_has_a_use():
    text = str(yaml_data("claims.yaml"))
    for name in (*FUNCTIONS, *FIGURES):
        assert f"{name}(" in text
    for name in CONSTANTS:
        assert name in text
