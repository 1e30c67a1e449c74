"""Tables on narrow pages: the class is that of the first width that holds the columns."""

import re
from itertools import pairwise

import pytest

from trnsim.document.narrow import WIDTHS_PX, rules, width_class


def test_a_table_that_fits_everywhere_has_no_class():
    assert width_class(["a", "b"], [False, True], [["x", "1"]]) == ""
    assert width_class([], [], []) == ""
    assert width_class(["a"], [True], []) == ""


@pytest.mark.parametrize("columns", range(3, 14))
def test_a_table_of_more_columns_has_a_class_that_is_no_smaller(columns):
    found = [
        int(width_class(["head"] * n, [True] * n, [["123.45 us"] * n])[1:] or 0)
        for n in (columns, columns + 1)
    ]
    assert found == sorted(found)
    assert set(found) <= {0, *WIDTHS_PX}


def test_words_are_broken_and_numbers_are_not():
    words = ["ten words are no wider than the widest of them"]
    assert width_class(["a"], [False], [words]) == ""
    assert width_class(["a"], [True], [words]) == "w360"  # 46 letters of 7.4 px, and 18 px of room


def test_markup_has_no_width_and_an_entity_that_of_its_character():
    marked = '<span class="a very long class of no width at all, as it is">1</span>&lt;'
    assert width_class(["a"], [True], [[marked]]) == ""


def test_one_wider_than_all_has_the_last_class():
    assert width_class(["a"], [True], [["1" * 999]]) == f"w{WIDTHS_PX[-1]}"


def test_a_class_is_that_of_a_width_which_is_little_wider_than_the_table():
    wastes = [above / below for below, above in pairwise(WIDTHS_PX) if above <= 1240]
    assert max(wastes) < 1.13


def test_each_class_of_a_page_has_its_rule_and_others_have_none():
    body = "".join(f'<table class="rows w{px}">' for px in WIDTHS_PX)
    assert re.findall(r"max-width: (\d+)px", rules(body)) == [str(px) for px in WIDTHS_PX]
    assert rules(body).count("{") == rules(body).count("}")
    body = '<table id="a" class="w440"></table><table class="w440"></table> w560 <b class="w700">'
    assert re.findall(r"max-width: (\d+)px", rules(body)) == ["440"]
    assert rules("") == ""


def test_a_panel_beside_others_is_wide_enough_for_its_table():
    assert ".columns section:has(.w440) { min-width: min(100%, 471px) }" in rules(
        '<table class="w440">'
    )
