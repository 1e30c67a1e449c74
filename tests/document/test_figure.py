import pytest

from trnsim.document.answer import Figure
from trnsim.document.figure import Figures, percent, pointer, usd_per_hour, value_at
from trnsim.document.text import words_text

VALUES = {"a": [{"b/c": 1234.5, "~": None}], "x": {"p10": 1.0, "p50": 20.0, "p90": 3000.0}}


def test_a_pointer_finds_what_it_was_made_for():
    assert pointer("a", 0, "b/c") == "/a/0/b~1c"
    assert value_at(VALUES, "/a/0/b~1c") == 1234.5
    assert value_at({"a": ({"~": 2},)}, pointer("a", 0, "~")) == 2
    with pytest.raises(KeyError):
        value_at(VALUES, "/b")


def test_dollars_have_their_value_and_place():
    found = Figures(VALUES)
    assert found.usd("a", 0, "b/c") == Figure(1234.5, "1,234", "/a/0/b~1c")
    assert found.usd("a", 0, "~") == Figure(None, "-", "/a/0/~0")
    assert found.usd_range("a", 0, "~") == "-"
    assert words_text(found.usd_range("x")) == "20 (1 to 3,000)"


def test_prices_have_cents_and_small_ones_three_digits():
    assert [usd_per_hour(one) for one in (63.296, 1234.5, 0.00456)] == [
        "63.30",
        "1,234.50",
        "0.00456",
    ]
    assert percent(0.616) == "62 %"
