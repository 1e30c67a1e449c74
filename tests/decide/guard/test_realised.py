import sys
from dataclasses import replace
from pathlib import Path

import pytest
from guarded import CANDIDATE, CHAT, OTHER, decision

from trnsim.decide.guard.realised import realised_savings
from trnsim.errors import BadInput

sys.path.append(str(Path(__file__).parents[1] / "inventory"))

from bills import bill

HEADER = "month,workload,usd,volume\n"


def read(tmp_path, text, *workloads):
    path = tmp_path / "bill.csv"
    path.write_text(text)
    return realised_savings(path, decision(*(workloads or (CHAT,))))


def test_months_are_held_against_what_todays_machines_would_cost(tmp_path):
    (found,) = read(
        tmp_path,
        HEADER
        + "2026-02,chat,40000,3.6e9\n"
        + "2026-02,chat,20000,\n"
        + "2026-01,chat,90000,1.8e9\n"
        + "2026-03,chat,120000,7.2e9\n",
    )
    january, february, march = found.months
    assert (january.expected_usd, january.saving) == (50_000, -0.8)
    assert (february.usd, february.expected_usd, february.saving) == (60_000, 100_000, 0.4)
    assert (march.expected_usd, march.saving) == (200_000, 0.4)
    assert [one.total_usd for one in found.months] == [-40_000, 0, 80_000]
    assert [one.is_as_predicted for one in found.months] == [False, True, True]
    assert found.paid_back_in == "2026-03"
    assert found.missing == ()


@pytest.mark.parametrize(
    ("usd", "is_as_predicted"), [(75_000, True), (75_100, False), (48_000, True)]
)
def test_a_saving_is_as_predicted_within_its_interval(usd, is_as_predicted, tmp_path):
    (found,) = read(tmp_path, HEADER + f"2026-01,chat,{usd},\n")
    assert found.months[0].is_as_predicted is is_as_predicted
    assert found.months[0].volume is None


def test_without_a_predicted_saving_a_month_is_not_judged(tmp_path):
    plain = replace(CHAT, candidates=(replace(CANDIDATE, saving=None),))
    (found,) = read(tmp_path, HEADER + "2026-01,chat,1,\n", plain)
    assert found.months[0].is_as_predicted is None


def test_months_that_the_bill_leaves_out_are_named(tmp_path):
    (found,) = read(tmp_path, HEADER + "2025-11,chat,1,\n2026-02,chat,1,\n")
    assert found.missing == ("2025-12", "2026-01")


def test_credits_and_free_months_are_legal(tmp_path):
    (found,) = read(tmp_path, HEADER + "2026-01,chat,500,\n2026-01,chat,-500,\n")
    assert found.months[0].saving == 1


def test_only_workloads_that_are_billed_are_reported(tmp_path):
    found = read(tmp_path, HEADER + "2026-01,tuning,5,\n", CHAT, OTHER)
    assert [one.workload.name for one in found] == ["tuning"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEADER, r"bill\.csv:1: no line below the header"),
        ("", r"bill\.csv:1: the file is empty"),
        (
            HEADER + "2026-13,chat,1,\n",
            r"bill\.csv:2: month is '2026-13'; legal: a month as YYYY-MM",
        ),
        (HEADER + "01/2026,chat,1,\n", r"bill\.csv:2: month is '01/2026'"),
        (HEADER + "2026-01,chad,1,\n", r"bill\.csv:2: workload is 'chad'; legal: chat"),
        (HEADER + "2026-01,chat,,\n", r"bill\.csv:2: usd is missing"),
        (HEADER + "2026-01,chat,8.000,\n", r"bill\.csv:2: usd is '8\.000'"),
        (HEADER + "2026-01,chat,nan,\n", r"bill\.csv:2: usd is 'nan'"),
        (HEADER + "2026-01,chat,1e30,\n", r"bill\.csv:2: usd is '1e30'"),
        (HEADER + "2026-01,chat,€5,\n", r"bill\.csv:2: usd is '€5'"),
        (HEADER + "2026-01,chat,5,0\n", r"bill\.csv:2: volume is '0'"),
        ("month,usd\n2026-01,5\n", "workload"),
    ],
)
def test_a_bill_that_cannot_be_used_is_refused_with_its_line(text, said, tmp_path):
    with pytest.raises(BadInput, match=said):
        read(tmp_path, text)


def report(tmp_path, *lines, tag="workload"):
    """A cost and usage report of an hour a line."""
    path = bill(tmp_path, *({"resource_tags": {f"user_{tag}": "chat"}} | one for one in lines))
    return realised_savings(path, decision(CHAT), tag)


def test_usage_of_a_report_belongs_to_the_workload_of_its_tag(tmp_path):
    september = {"line_item_usage_start_date": "2026-09-30T23:00:00Z"}
    other = {"resource_tags": {"user_workload": "another"}}
    for tag in ("workload", "team"):
        (found,) = report(tmp_path, {}, {}, september, other, tag=tag)
        assert [(one.month, one.usd) for one in found.months] == [
            ("2026-09", 55.04),
            ("2026-10", 110.08),
        ]
        assert {one.volume for one in found.months} == {None}


def test_a_report_without_the_tag_names_those_it_has(tmp_path):
    path = bill(tmp_path, {"resource_tags": {"user_workload": "searching"}})
    with pytest.raises(
        BadInput, match=r"the tag workload of a workload \(chat\); it has searching"
    ):
        realised_savings(path, decision(CHAT))
    with pytest.raises(BadInput, match=r"the tag owner of a workload .*; it has none"):
        realised_savings(path, decision(CHAT), "owner")


def test_hours_that_were_paid_in_advance_are_refused(tmp_path):
    with pytest.raises(BadInput, match=r"cost nothing: a block is paid in advance"):
        report(tmp_path, {"line_item_unblended_cost": "0"})
