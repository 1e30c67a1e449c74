"""A cost and usage report: what of it counts, at which cost, as which kind of purchase."""

import re
from datetime import date

import pytest
from bills import bill
from hypothesis import given
from hypothesis import strategies as st

from trnsim.decide.inventory.bill import read_bill
from trnsim.errors import BadInput

BLOCK = "capacity_reservation_capacity_reservation_type"


def only(folder, *lines):
    (usage,) = read_bill(bill(folder, *lines)).usage
    return usage


def test_hours_of_the_same_machine_are_summed(tmp_path):
    found = read_bill(bill(tmp_path, {}, {"line_item_usage_start_date": "2026-10-31T23:00:00Z"}))
    (usage,) = found.usage
    assert (usage.instance, usage.kind, usage.region) == ("p5.48xlarge", "on_demand", "us-east-1")
    assert (usage.hours, usage.month, usage.line) == (2, "2026-10", 2)
    assert usage.usd == pytest.approx(110.08)
    assert usage.tags == (("team", "chat"),)
    assert (found.last_day, found.months) == (date(2026, 10, 31), ("2026-10",))
    assert found.usd == usage.usd


@pytest.mark.parametrize(
    "changes",
    [
        {"line_item_usage_type": "USE1-BoxUsage:g5.xlarge"},
        {"line_item_usage_type": "SpotUsage:p5.48xlarge"},
        {"product_region_code": "us-east-2"},
        {"line_item_resource_id": "i-2"},
        {"resource_tags": {"user_team": "other"}},
        {"line_item_usage_start_date": "2026-09-30T23:00:00Z"},
    ],
)
def test_other_machines_resources_tags_and_months_are_apart(tmp_path, changes):
    assert len(read_bill(bill(tmp_path, {}, changes)).usage) == 2


@pytest.mark.parametrize(
    ("changes", "kind", "usd"),
    [
        ({}, "on_demand", 55.04),
        ({"line_item_net_unblended_cost": "40"}, "on_demand", 40),
        ({"line_item_usage_type": "USE2-UnusedBox:p5.48xlarge"}, "on_demand", 55.04),
        ({"line_item_usage_type": "SpotUsage:p5.48xlarge"}, "spot", 55.04),
        ({"line_item_unblended_cost": "0"}, "capacity_block", 0),
        ({BLOCK: "CapacityBlock"}, "capacity_block", 55.04),
        (
            {
                "line_item_line_item_type": "DiscountedUsage",
                "reservation_effective_cost": "20",
                "pricing_lease_contract_length": "3yr",
            },
            "ri_3y",
            20,
        ),
        (
            {"line_item_line_item_type": "DiscountedUsage", "reservation_effective_cost": "20"},
            "ri_effective",
            20,
        ),
        (
            {
                "line_item_line_item_type": "SavingsPlanCoveredUsage",
                "savings_plan_savings_plan_effective_cost": "30",
                "savings_plan_purchase_term": "1yr",
            },
            "savings_plan_1y",
            30,
        ),
    ],
)
def test_a_line_has_the_kind_and_cost_of_its_purchase(tmp_path, changes, kind, usd):
    usage = only(tmp_path, changes)
    assert (usage.kind, usage.usd) == (kind, usd)


@pytest.mark.parametrize("kind", ["Tax", "Credit", "Refund", "Fee", "RIFee", "SavingsPlanNegation"])
def test_fees_taxes_and_credits_are_not_counted(tmp_path, kind):
    line = {"line_item_line_item_type": kind, "line_item_unblended_cost": "-9"}
    assert only(tmp_path, {}, line).usd == 55.04


def test_storage_and_processors_are_not_counted(tmp_path):
    others = [
        {"line_item_usage_type": f"USE1-{name}"}
        for name in ("EBS:VolumeUsage.gp3", "BoxUsage:m5.large", "BoxUsage", "Host:ml.p5.48xlarge")
    ]
    assert only(tmp_path, {}, *others).hours == 1


def test_a_size_that_the_catalogue_lacks_is_named_with_its_cost(tmp_path):
    odd = {"line_item_usage_type": "BoxUsage:g5.4xlarge", "line_item_unblended_cost": "1.5"}
    assert read_bill(bill(tmp_path, {}, odd, odd)).unknown == (("g5.4xlarge", 3.0),)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"line_item_currency_code": "CNY"}, "line_item_currency_code is 'CNY'; legal: USD"),
        ({"line_item_usage_amount": "nan"}, "line_item_usage_amount is 'nan'; legal: a number"),
        ({"line_item_usage_amount": "-1"}, "line_item_usage_amount is '-1'; legal: a number"),
        ({"line_item_usage_amount": "1e30"}, "line_item_usage_amount is '1e30'; legal: a number"),
        ({"line_item_usage_amount": ""}, "line_item_usage_amount is missing"),
        ({"line_item_unblended_cost": "€5"}, "line_item_unblended_cost is '€5': no number"),
        ({"line_item_unblended_cost": "1,5"}, "line_item_unblended_cost is '1,5': no number"),
        (
            {"line_item_usage_start_date": "01.10.2026"},
            "line_item_usage_start_date is '01.10.2026'; legal: a day as 2026-10-31T00:00:00Z",
        ),
        (
            {"line_item_usage_start_date": "2026-02-30"},
            "line_item_usage_start_date is '2026-02-30'; legal: ",
        ),
        (
            {"line_item_usage_start_date": "2999-01-01"},
            "line_item_usage_start_date is '2999-01-01': in the future; legal: up to ",
        ),
        (
            {"line_item_line_item_type": "SavingsPlanCoveredUsage",
             "savings_plan_savings_plan_effective_cost": "1"},
            "savings_plan_purchase_term is missing",
        ),
        (
            {"line_item_line_item_type": "DiscountedUsage"},
            "reservation_effective_cost is missing",
        ),
    ],
)  # fmt: skip
def test_a_bad_cell_is_named(tmp_path, changes, message):
    path = bill(tmp_path, {}, changes)
    with pytest.raises(BadInput, match="^" + re.escape(f"{path}:3: {message}")):
        read_bill(path)


@pytest.mark.parametrize(
    ("kinds", "seen"),
    [
        (["BoxUsage:m5.large", "BoxUsage:c7g.large", "BoxUsage:m5.large"], "m5.large, c7g.large"),
        (["EBS:VolumeUsage"], "no running instance at all"),
    ],
)
def test_a_bill_without_accelerators_is_refused(tmp_path, kinds, seen):
    path = bill(tmp_path, *({"line_item_usage_type": kind} for kind in kinds))
    with pytest.raises(BadInput, match=f"no usage of accelerators; the report has .*{seen}"):
        read_bill(path)


@given(hours=st.lists(st.tuples(st.sampled_from(["p5.48xlarge", "g5.xlarge"]),
                                st.integers(1, 10_000)), min_size=1, max_size=20))  # fmt: skip
def test_nothing_is_lost_and_order_does_not_matter(tmp_path_factory, hours):
    folder = tmp_path_factory.mktemp("bill")
    lines = [
        {"line_item_usage_type": f"BoxUsage:{name}", "line_item_usage_amount": str(count)}
        for name, count in hours
    ]
    found = read_bill(bill(folder, *lines))
    turned = read_bill(bill(folder, *reversed(lines)))
    assert sum(one.hours for one in found.usage) == sum(count for _, count in hours)
    assert found.usd == pytest.approx(55.04 * len(hours))
    assert [(u.instance, u.hours) for u in found.usage] == [
        (u.instance, u.hours) for u in turned.usage
    ]
