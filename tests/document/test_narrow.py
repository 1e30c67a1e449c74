"""Tables on narrow pages: the class is that of the first width that holds the columns."""

import re

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
    assert width_class(["a"], [True], [words]) == "w440"


def test_markup_has_no_width_and_an_entity_that_of_its_character():
    marked = '<span class="a very long class of no width at all, as it is">1</span>&lt;'
    assert width_class(["a"], [True], [[marked]]) == ""


def test_one_wider_than_all_has_the_last_class():
    assert width_class(["a"], [True], [["1" * 999]]) == f"w{WIDTHS_PX[-1]}"


def test_each_class_has_its_rule():
    assert re.findall(r"max-width: (\d+)px", rules()) == [str(px) for px in WIDTHS_PX]
    assert rules().count("{") == rules().count("}")
