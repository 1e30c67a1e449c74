import re
import shutil
from datetime import date
from pathlib import Path

import pytest

from trnsim.errors import BadInput
from trnsim.facts import Interval
from trnsim.system.assess import Decision, Option, assess, decide, read_inventory

EXAMPLES = Path(__file__).parents[2] / "examples"
DAY = date(2026, 10, 15)
HEADER = "workload,model_config,kind,tokens_per_month,current_instance,usd_per_month"


@pytest.fixture
def inventory(tmp_path):
    shutil.copy(EXAMPLES / "llama-3.1-8b.json", tmp_path / "model.json")

    def write(*lines, header=HEADER):
        path = tmp_path / "inventory.csv"
        path.write_text("\n".join([header, *lines]) + "\n")
        return path

    return write


def option(p10, p50, p90, *, validated=True, platform="trn1"):
    usd = Interval(p10, p50, p90)
    return Option(platform, "i", Interval(1, 1, 1), usd, None, "", validated, "")


def test_the_example_is_assessed_on_every_platform():
    assessed = assess(EXAMPLES / "inventory.csv", as_of=DAY)
    assert [a.workload.name for a in assessed] == [
        "nightly-pretraining",
        "weekly-tuning",
        "chat",
        "summaries",
    ]
    for one in assessed:
        assert [o.platform for o in one.options] == ["trn1", "trn2", "trn3", "p5en"]
        assert one.reason
        for o in one.options:
            assert o.hours.p10 <= o.hours.p50 <= o.hours.p90
            assert (o.usd is None) == (o.price == "no public price (capacity_block)")


def test_hours_of_gpus_become_tokens(inventory):
    header = HEADER.replace("tokens_per_month", "gpu_hours")
    few, many = (
        assess(inventory(f"a,model.json,train,{h},p5en.48xlarge,9000", header=header), as_of=DAY)
        for h in (100, 200)
    )
    assert many[0].tokens_per_month == pytest.approx(2 * few[0].tokens_per_month)


def test_more_tokens_cost_more(inventory):
    bills = [
        assess(inventory(f"a,model.json,train,{t},p5.48xlarge,9000"), as_of=DAY)[0].options[0].usd
        for t in (1e10, 1e11)
    ]
    assert bills[0].p50 < bills[1].p50


def test_another_purchase_kind_has_other_prices(inventory):
    path = inventory("a,model.json,train,1e10,p5.48xlarge,9000")
    trn2 = assess(path, kind="on_demand", as_of=DAY)[0].options[1]
    assert trn2.usd is None
    assert trn2.price == "no public price (on_demand)"


def test_a_validated_saving_at_p90_is_a_go():
    assert decide(100_000, (option(30_000, 40_000, 50_000),))[0] is Decision.GO


def test_an_unvalidated_saving_is_a_pilot():
    decision, reason = decide(100_000, (option(30_000, 40_000, 50_000, validated=False),))
    assert decision is Decision.PILOT
    assert reason.endswith("months at P50; the estimate is not validated")


def test_a_saving_that_p90_eats_is_a_pilot():
    decision, reason = decide(100_000, (option(30_000, 40_000, 120_000),))
    assert decision is Decision.PILOT
    assert reason.endswith("not so at P90")


def test_a_small_bill_is_a_no_go():
    decision, reason = decide(1_000, (option(300, 400, 500),))
    assert decision is Decision.NO_GO
    assert reason == (
        "trn1: a migration of 60,000 USD (assumed) pays back in 100.0 months at P50, over 12"
    )


def test_no_saving_is_a_no_go():
    assert decide(1_000, (option(2_000, 3_000, 4_000),)) == (
        Decision.NO_GO,
        "trn1 saves nothing at P50",
    )


def test_a_cheap_gpu_is_not_a_reason_to_move_to_trainium():
    decision, reason = decide(100_000, (option(1, 2, 3, platform="p5en"),))
    assert decision is Decision.NO_GO
    assert reason == "no Trainium option has a public price"


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("a,model.json,tune,1e9,p5.48xlarge,9", "kind is 'tune'; legal: train, serve"),
        (
            "a,model.json,train,many,p5.48xlarge,9",
            "tokens_per_month: 'many' is no number; write it without separators or unit",
        ),
        (
            "a,model.json,train,1e9,p5.48xlarge,-1",
            "usd_per_month is '-1'; legal: a positive number",
        ),
        (
            "a,model.json,train,,p5.48xlarge,9",
            "neither given; legal: exactly one of tokens_per_month and gpu_hours",
        ),
        (",model.json,train,1e9,p5.48xlarge,9", "workload is empty"),
        ("a,model.json,train,1e9,p9,9", "target 'p9' is not known; legal: trn1, trn2, trn3"),
        ("a,none.json,train,1e9,p5.48xlarge,9", ""),
    ],
)
def test_a_broken_line_is_named(inventory, line, what):
    path = inventory("ok,model.json,train,1e9,p5.48xlarge,9", line)
    with pytest.raises(BadInput, match="^" + re.escape(f"{path}:3: {what}")):
        read_inventory(path)


# What people write for eight thousand, and what else a number may be; None is refused.
WRITTEN = {
    "8000": 8000.0, "8000.5": 8000.5, "8e3": 8000.0, "8_000": 8000.0, " 8000 ": 8000.0,
    "+8000": 8000.0, '"8000"': 8000.0, "0.008": 0.008, "8.0": 8.0, "8000.000": 8000.0,
    "8,000": None, '"8,000"': None, "8.000": None, '"8.000,5"': None, "8.000,5": None,
    "8 000": None, "8'000": None, "8k": None, "8K": None, "$8000": None, "8000 USD": None,
    "inf": None, "-inf": None, "nan": None, "1e999": None, "0": None, "-8000": None, "": None,
    "0x1f40": None, "8.000.000": None, '"8,000,000"': None,
}  # fmt: skip


@pytest.mark.parametrize("column", ["tokens_per_month", "usd_per_month"])
@pytest.mark.parametrize("written", WRITTEN)
def test_a_number_is_never_silently_another(inventory, column, written):
    cells = {"tokens_per_month": "1e9", "usd_per_month": "9", column: written}
    line = f"a,model.json,train,{cells['tokens_per_month']},p5.48xlarge,{cells['usd_per_month']}"
    path = inventory(line)
    if WRITTEN[written] is None:
        with pytest.raises(BadInput, match=re.escape(f"{path}:2: ")):
            read_inventory(path)
    else:
        (workload,) = read_inventory(path)
        found = workload.volume if column == "tokens_per_month" else workload.usd_per_month
        assert found == WRITTEN[written]


def test_a_separator_that_makes_a_cell_is_named(inventory):
    path = inventory("a,model.json,train,1e9,p5.48xlarge,8,000")
    with pytest.raises(
        BadInput, match=r"1 more cells than columns, the last of them '000'\n  fix: "
    ):
        read_inventory(path)


def test_quoted_cells_may_hold_commas_quotes_and_lines(inventory):
    path = inventory('"a, ""b""\nc",model.json,train,1e9,p5.48xlarge,9')
    (workload,) = read_inventory(path)
    assert workload.name == 'a, "b"\nc'


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_kind_of_line_end_is_read(inventory, end):
    path = inventory("a,model.json,train,1e9,p5.48xlarge,9")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", end.encode()))
    assert [workload.name for workload in read_inventory(path)] == ["a"]


@pytest.mark.parametrize("line", ['"a,model.json,train,1e9,p5.48xlarge,9', '"a"b,c', "a" * 200_000])
def test_what_is_no_csv_is_named(inventory, line):
    path = inventory(line)
    with pytest.raises(BadInput, match=re.escape(f"{path}:") + r"\d+: no CSV: "):
        read_inventory(path)


def test_a_missing_column_is_named(inventory):
    path = inventory(header="workload,kind")
    message = (
        f"{path}:1: columns missing: model_config, current_instance, usd_per_month, "
        "tokens_per_month or gpu_hours; found: workload, kind"
    )
    with pytest.raises(BadInput, match="^" + re.escape(message)):
        read_inventory(path)


def test_an_empty_inventory_is_refused(inventory):
    with pytest.raises(BadInput, match=r"inventory\.csv: no workloads\n  fix: add a line per work"):
        read_inventory(inventory())


def test_a_missing_inventory_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"none\.csv: No such file or directory\n  fix: give a CSV"):
        read_inventory(tmp_path / "none.csv")
