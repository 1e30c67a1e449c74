import pytest

from trnsim.document.figure import Figures, percent, pointer, usd_per_hour, value_at

VALUES = {"a": [{"b/c": 1234.5, "~": None}], "x": {"p10": 1.0, "p50": 20.0, "p90": 3000.0}}


def test_a_pointer_finds_what_it_was_made_for():
    assert pointer("a", 0, "b/c") == "/a/0/b~1c"
    assert value_at(VALUES, "/a/0/b~1c") == 1234.5
    assert value_at({"a": ({"~": 2},)}, pointer("a", 0, "~")) == 2
    with pytest.raises(KeyError):
        value_at(VALUES, "/b")


def test_dollars_are_markup_with_their_value_and_place():
    found = Figures(VALUES)
    assert found.usd("a", 0, "b/c") == (
        '<data class="usd" value="1234.5" data-of="/a/0/b~1c">1,234</data>'
    )
    assert found.usd("a", 0, "~") == found.usd_range("a", 0, "~") == "-"
    assert found.usd_range("x").count("<data") == 3
    assert ">20</data>" in found.usd_range("x")


def test_a_name_in_a_place_is_escaped():
    assert 'data-of="/&lt;i&gt;&quot;"' in Figures({'<i>"': 1.0}).usd('<i>"')


def test_prices_have_cents_and_small_ones_three_digits():
    assert [usd_per_hour(one) for one in (63.296, 1234.5, 0.00456)] == [
        "63.30",
        "1,234.50",
        "0.00456",
    ]
    assert percent(0.616) == "62 %"
