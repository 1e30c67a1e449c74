from datetime import date

import pytest

from trnsim.arch.catalogue import catalogue
from trnsim.cli.asked import AskedOptions, check_seed
from trnsim.errors import BadInput


def test_options_become_a_question():
    given = AskedOptions(on=["trn1", "inf2"], price="spot", mixed_prices=True, as_of="2026-07-20")
    asked = given.asked(catalogue(), 3)
    assert asked.on == ("trn1", "inf2")
    assert (asked.kind, asked.is_mixed, asked.seed) == ("spot", True, 3)
    assert asked.as_of == date(2026, 7, 20)


def test_without_options_everything_is_looked_at():
    assert AskedOptions().asked(catalogue(), 0).on == ()


def test_a_seed_is_zero_or_more():
    check_seed(0)
    with pytest.raises(BadInput, match="--seed is -1; legal: whole numbers from 0 on"):
        check_seed(-1)


def test_a_day_that_is_none_is_refused():
    with pytest.raises(BadInput, match="--as-of is 'today'"):
        AskedOptions(as_of="today").asked(catalogue(), 0)
