from datetime import date

import pytest

from trnsim.arch.catalogue import catalogue
from trnsim.cli.inventory_options import InventoryOptions
from trnsim.errors import BadInput


def test_options_become_a_question():
    given = InventoryOptions(
        on=["trn1", "inf2"], price="spot", mixed_prices=True, as_of="2026-07-20"
    )
    assessment = given.assessment(catalogue(), 3)
    assert assessment.on == ("trn1", "inf2")
    assert (assessment.kind, assessment.is_mixed, assessment.seed) == ("spot", True, 3)
    assert assessment.as_of == date(2026, 7, 20)


def test_without_options_everything_is_looked_at():
    assert InventoryOptions().assessment(catalogue(), 0).on == ()


def test_a_day_that_is_none_is_refused():
    with pytest.raises(BadInput, match="--as-of is 'today'"):
        InventoryOptions(as_of="today").assessment(catalogue(), 0)
