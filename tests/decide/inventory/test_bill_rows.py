"""Rows of cost and usage reports: CSV, gzipped and Parquet say the same."""

import gzip
import re

import pytest
from bills import HOUR, bill, text

from trnsim.decide.inventory import bill_rows as room
from trnsim.decide.inventory.bill_rows import REQUIRED, bill_rows, is_bill, tag_key
from trnsim.errors import BadInput

EXPECTED = {
    **{key: value for key, value in HOUR.items() if key != "resource_tags"},
    "tag:team": "chat",
}


def only(path):
    (row,) = bill_rows(path)
    return row


def test_csv_and_gzip_say_the_same(tmp_path):
    path = bill(tmp_path, {})
    assert only(path)[1] == EXPECTED
    assert only(path)[0] == 2
    packed = tmp_path / "october.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert only(packed)[1] == EXPECTED


def test_parquet_says_the_same(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {key: [value] for key, value in HOUR.items() if key != "resource_tags"}
    columns["line_item_usage_amount"] = [1.0]
    tags = arrow.array([[("user_team", "chat")]], arrow.map_(arrow.string(), arrow.string()))
    path = tmp_path / "october.parquet"
    other = arrow.array(["unread"])
    parquet.write_table(arrow.table({**columns, "resource_tags": tags, "other": other}), path)
    assert is_bill(path)
    assert only(path)[1] == {**EXPECTED, "line_item_usage_amount": "1.0"}


def test_the_older_report_has_the_same_columns(tmp_path):
    header = {
        "lineItem/LineItemType": "Usage",
        "lineItem/UsageType": "BoxUsage:g5.xlarge",
        "lineItem/UsageStartDate": "2026-10-01T00:00:00Z",
        "lineItem/UsageAmount": "2",
        "lineItem/UnblendedCost": "2.012",
        "lineItem/ResourceId": "i-2",
        "product/regionCode": "us-east-1",
        "savingsPlan/SavingsPlanEffectiveCost": "1",
        "reservation/EffectiveCost": "3",
        "resourceTags/user:team": "photos",
    }
    path = tmp_path / "old.csv"
    path.write_text(",".join(header) + "\n" + ",".join(header.values()) + "\n")
    assert is_bill(path)
    assert only(path)[1] == {
        "line_item_line_item_type": "Usage",
        "line_item_usage_type": "BoxUsage:g5.xlarge",
        "line_item_usage_start_date": "2026-10-01T00:00:00Z",
        "line_item_usage_amount": "2",
        "line_item_unblended_cost": "2.012",
        "line_item_resource_id": "i-2",
        "product_region_code": "us-east-1",
        "savings_plan_savings_plan_effective_cost": "1",
        "reservation_effective_cost": "3",
        "tag:team": "photos",
    }


@pytest.mark.parametrize("key", ["CostCenter", "user:CostCenter", "cost_center", "Cost center"])
def test_a_tag_has_one_key_in_all_reports(key, tmp_path):
    assert tag_key(key) == "cost_center"
    path = bill(tmp_path, {"resource_tags": {key: "42"}})
    assert only(path)[1]["tag:cost_center"] == "42"
    older = text({"resource_tags": None, f"resourceTags/{key}": "42"})
    path.write_text(older, encoding="utf-8")
    assert only(path)[1]["tag:cost_center"] == "42"


def test_of_two_spellings_of_a_tag_the_one_with_a_value_counts(tmp_path):
    path = bill(tmp_path, {"resource_tags": {"Team": "chat", "team": ""}})
    assert only(path)[1]["tag:team"] == "chat"


def test_blank_lines_are_no_rows(tmp_path):
    path = tmp_path / "october.csv"
    path.write_text(text({}).replace("\n", "\n\n") + "\n", encoding="utf-8")
    assert only(path) == (3, EXPECTED)


def test_a_list_of_text_in_parquet_has_no_tags(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {key: [value] for key, value in HOUR.items() if key != "resource_tags"}
    path = tmp_path / "october.parquet"
    parquet.write_table(arrow.table({**columns, "resource_tags": [["team=chat"]]}), path)
    with pytest.raises(BadInput, match=r"october\.parquet:2: resource_tags is no JSON"):
        only(path)


def test_an_inventory_is_no_bill(tmp_path):
    path = tmp_path / "inventory.csv"
    path.write_text("workload,kind\n# line_item_usage_type\n")
    assert not is_bill(path)
    path.write_bytes(b"")
    assert not is_bill(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("line_item_usage_type\n", "october.csv:1: columns missing: line_item_line_item_type, "),
        ("", f"october.csv:1: columns missing: {', '.join(REQUIRED)}"),
        (text({}) + "a,b\n", "october.csv:3: 2 cells, and the first line has 9 columns"),
        (text({}) + '"a\n', "october.csv:2: no CSV in UTF-8: unexpected end of data"),
        (
            text({"resource_tags": "team=chat"}),
            "october.csv:2: resource_tags is no JSON: Expecting value",
        ),
        (
            text({"resource_tags": '["chat"]'}),
            "october.csv:2: resource_tags is '[\"chat\"]'; legal: a JSON object of tags",
        ),
    ],
)
def test_a_report_that_is_broken_is_refused(tmp_path, content, message):
    path = tmp_path / "october.csv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(BadInput, match="^" + re.escape(f"{tmp_path}/{message}")) as raised:
        list(bill_rows(path))
    assert raised.value.fix.startswith("give an export of AWS Data Exports")


def test_a_report_in_another_encoding_is_refused(tmp_path):
    path = tmp_path / "october.csv"
    path.write_bytes(text({}).encode() + b"\xff\n")
    with pytest.raises(BadInput, match=r"october\.csv:\d: no CSV in UTF-8: "):
        list(bill_rows(path))
    path.write_bytes(text({}).encode("utf-16"))
    with pytest.raises(BadInput, match=r"october\.csv:1: no CSV in UTF-8: "):
        list(bill_rows(path))


def test_a_broken_archive_is_refused(tmp_path):
    path = tmp_path / "october.csv.gz"
    path.write_bytes(gzip.compress(text(*[{}] * 99).encode())[:-20])
    with pytest.raises(BadInput, match=r"october\.csv\.gz:\d+: the compressed file is broken: "):
        list(bill_rows(path))


def test_a_line_without_an_end_is_not_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr("trnsim.decide.inventory.bill_rows._LINE_MAX", 1000)
    path = tmp_path / "bill.csv.gz"
    path.write_bytes(gzip.compress(b"a" * 100_000))
    with pytest.raises(BadInput, match=r"bill\.csv\.gz:1: .*a line of 1,000 characters or more"):
        list(bill_rows(path))


def test_broken_parquet_is_refused(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "october.parquet"
    path.write_bytes(b"PAR1 and nothing more")
    with pytest.raises(BadInput, match=r"october\.parquet:1: no Parquet: "):
        list(bill_rows(path))


def test_parquet_without_its_library_names_the_extra(tmp_path, monkeypatch):
    path = tmp_path / "october.parquet"
    path.write_bytes(b"PAR1")
    monkeypatch.setattr(room, "find_spec", lambda _: None)
    with pytest.raises(BadInput, match="Parquet needs pyarrow, which is not installed") as raised:
        list(bill_rows(path))
    assert raised.value.fix == "pip install 'trnsim[parquet]'"
