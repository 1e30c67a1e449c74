import pytest

from trnsim.arch.catalogue import catalogue
from trnsim.errors import BadInput
from trnsim.price.regions import check_region, codes, covers, is_region


def price(instance, kind, region):
    return next(
        row
        for row in catalogue().prices
        if (row.instance, row.kind, row.region) == (instance, kind, region)
    )


@pytest.mark.parametrize("text", ["us-east-1", "ap-southeast-4", "us-gov-west-1", "eusc-de-east-1"])
def test_a_code_is_a_region(text):
    assert is_region(text)
    assert check_region(text) == text


@pytest.mark.parametrize(
    "text", ["", "US", "us-east-1a", "Melbourne", "us_east_1", "us-east-1 az3"]
)
def test_anything_else_is_none(text):
    assert not is_region(text)
    with pytest.raises(BadInput, match=r"; legal: the code of an AWS region"):
        check_region(text)


def test_a_price_covers_the_regions_that_it_states():
    block = price("trn2.48xlarge", "capacity_block", "us-east-2, ap-south-2")
    assert codes(block) == ("us-east-2", "ap-south-2")
    assert covers(block, "ap-south-2")
    assert not covers(block, "us-east-1")


def test_the_name_of_a_place_is_its_region():
    assert covers(price("trn2.3xlarge", "capacity_block", "Melbourne"), "ap-southeast-4")


def test_us_covers_the_united_states_alone():
    block = price("p5en.48xlarge", "capacity_block", "US")
    assert covers(block, "us-west-2")
    assert not covers(block, "eu-west-1")


def test_a_price_that_states_no_region_may_hold_in_any():
    assert covers(price("trn1.32xlarge", "ri_effective", "not stated"), "eu-west-1")


def test_outside_us_is_the_rest_of_the_world():
    block = price("p5.48xlarge", "capacity_block", "outside US")
    assert covers(block, "eu-west-2")
    assert not covers(block, "us-west-2")


def test_us_and_a_region_beside_it():
    block = price("p6-b200.48xlarge", "capacity_block", "US, ap-south-1")
    assert covers(block, "us-west-2")
    assert covers(block, "ap-south-1")
    assert not covers(block, "eu-west-2")
