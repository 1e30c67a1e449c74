from datetime import date

from trnsim.arch.catalogue import catalogue
from trnsim.cli.price_blocks import overview, quotes_of, remark, terms_text
from trnsim.price import KINDS, quote

DAY = date(2026, 11, 20)


def test_terms_are_said_in_words():
    words = {kind: terms_text(terms) for kind, terms in catalogue().terms.items()}
    assert words["spot"] == "spare capacity, which AWS takes back with two minutes of notice"
    assert words["ri_1y"].endswith("; 365 days at least")
    assert words["capacity_block"].endswith(
        "; 1 to 182 days, in days up to 14 and then in steps of 7; sizes 1, 2, 4, 8, 16, 32, 64; "
        "256 instances in all at most; to start within 56 days"
    )


def test_an_instance_has_a_quote_of_each_kind_that_it_has_a_price_of():
    found = quotes_of("trn2.48xlarge", KINDS, DAY, None, catalogue())
    assert [one.kind for one in found] == [
        "on_demand",
        "capacity_block",
        "capacity_block_paid",
        "spot",
        "spot_paid",
    ]
    assert quotes_of("trn2.48xlarge", KINDS, DAY, "eu-west-1", catalogue()) == []


def test_what_is_old_says_how_old():
    assert remark(quote("trn1.32xlarge", "on_demand", as_of=DAY)) == "123 d old"
    assert remark(quote("p5.48xlarge", "on_demand", as_of=DAY)) == ""
    assert remark(quote("trn2.48xlarge", "on_demand", as_of=DAY)) == ""


def test_what_has_no_public_price_is_a_line_without_one():
    (row,) = overview([quote("trn2.48xlarge", "on_demand", as_of=DAY)]).rows
    assert row == ("trn2.48xlarge", "on_demand", "none", "-", "-", "")
